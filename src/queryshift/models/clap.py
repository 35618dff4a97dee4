"""CLAP (Wu et al., 2023): audio and text."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from queryshift.encoders.adapted_parameters import norm_layer_names
from queryshift.encoders.encoder import Encoder
from queryshift.media.audio import waveforms

from .hf import Checkpoint, Tower, pooled


@dataclass
class AudioReader:
    """Turn audio into spectrograms at the model's rate; cut the end of long audio."""

    extractor: Any
    _warned: bool = False

    def __call__(self, items: Sequence[Any]) -> dict[str, Tensor]:
        """Return spectrograms, and `is_longer`, which is always false because audio was cut."""
        rate, longest = self.extractor.sampling_rate, self.extractor.nb_max_samples
        waves = waveforms(items, rate)
        self._warn_of_cuts(max(map(len, waves)) / rate, longest / rate)
        features = self.extractor(
            [wave[:longest] for wave in waves], sampling_rate=rate, return_tensors="pt"
        )["input_features"]
        # The library would mark a random item of the batch as longer.
        none_is_longer = torch.zeros(len(waves), 1, dtype=torch.bool)
        spectrograms = torch.as_tensor(np.asarray(features))
        return {"input_features": spectrograms, "is_longer": none_is_longer}

    def _warn_of_cuts(self, seconds: float, most: float) -> None:
        if seconds > most and not self._warned:
            self._warned = True
            warnings.warn(
                f"audio of {seconds:.1f} s is longer than the {most:g} s this model takes: "
                "such items are cut at their end (said once).",
                stacklevel=5,
            )


def load(checkpoint: Checkpoint) -> dict[str, Encoder]:
    """Load audio and text encoders of one checkpoint."""
    checkpoint.refuse_published()
    model = checkpoint.model
    spectrograms = AudioReader(checkpoint.extractor())
    audio = Tower(model.audio_model, model.audio_projection, spectrograms, pooled)
    # The batch norm at the input holds each mel band's statistics in decibels: it does not adapt.
    audio.norm_names = norm_layer_names(audio, "*batch_norm", "*fusion_model*")
    text = Tower(model.text_model, model.text_projection, checkpoint.words(), pooled)
    return {"audio": audio, "text": text}
