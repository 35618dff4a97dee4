"""Log-mel spectrograms in plain torch."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

RATE = 16_000
WINDOW, HOP, BINS, FRAMES = 512, 256, 64, 80
LENGTH = FRAMES * HOP
_MEAN, _SPREAD = -1.6, 4.7  # of clean clips


@cache
def mel_filters() -> Tensor:
    """Triangles evenly spaced in mel, (257, 64)."""
    highest = 2595 * torch.log10(torch.tensor(1 + RATE / 2 / 700))
    edges = 700 * (10 ** (torch.linspace(0, float(highest), BINS + 2) / 2595) - 1)
    tones = torch.linspace(0, RATE / 2, WINDOW // 2 + 1)[:, None]
    rising = (tones - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - tones) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


def log_mel(waveforms: Tensor) -> Tensor:
    """(B, 20480) samples at 16 kHz as (B, 80, 64), about zero mean and unit spread."""
    centred = waveforms - waveforms.mean(1, keepdim=True)
    padded = torch.nn.functional.pad(centred, (WINDOW - HOP, 0))
    frames = padded.unfold(1, WINDOW, HOP) * torch.hann_window(WINDOW, device=waveforms.device)
    power = torch.fft.rfft(frames).abs().square()
    mel = power @ mel_filters().to(waveforms.device)
    return (torch.log(mel + 1e-5) - _MEAN) / _SPREAD
