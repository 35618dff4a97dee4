"""Kaldi's log-mel filter bank in numpy, as AST and CAV-MAE take it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput

RATE = 16_000
BINS = 128
_WINDOW, _SHIFT, _TRANSFORM = 400, 160, 512  # 25 ms, 10 ms, the next power of two
_LOWEST, _EMPHASIS, _FLOOR = 20.0, 0.97, float(np.finfo(np.float32).eps)

Floats = NDArray[np.floating[Any]]


def log_mel(samples: Floats) -> NDArray[np.float32]:
    """Log energies (frames, 128) of a mono waveform at 16 kHz, a frame every 10 ms."""
    if len(samples) < _WINDOW:
        raise BadInput(
            f"a waveform of {len(samples)} samples is shorter than one window of {_WINDOW} "
            "(25 ms at 16 kHz)."
        )
    windows = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float64), _WINDOW)
    frames = windows[::_SHIFT] - windows[::_SHIFT].mean(1, keepdims=True)
    before = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    shaped = (frames - _EMPHASIS * before) * np.hanning(_WINDOW)
    power = np.abs(np.fft.rfft(shaped, _TRANSFORM)) ** 2
    return np.log(np.maximum(power @ _triangles(), _FLOOR)).astype(np.float32)


@cache
def _triangles() -> Floats:
    """Weights (257, 128): triangles that are straight in mel, as Kaldi draws them."""
    lowest, highest = _mel(np.array([_LOWEST, RATE / 2]))
    edges = np.linspace(lowest, highest, BINS + 2)
    tones = _mel(np.arange(_TRANSFORM // 2 + 1) * (RATE / _TRANSFORM))[:, None]
    rising = (tones - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - tones) / (edges[2:] - edges[1:-1])
    triangles: Floats = np.maximum(np.minimum(rising, falling), 0.0)
    return triangles


def _mel(hertz: Floats) -> Floats:
    mel: Floats = 1127.0 * np.log(1.0 + hertz / 700.0)
    return mel
