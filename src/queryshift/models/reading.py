"""How a tower reads texts, pictures and sounds, each by the model's own processor."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from queryshift.media.pictures import pictures
from queryshift.media.sounds import sounds
from queryshift.media.texts import texts
from queryshift.support.locks import RenewedLock

from .pictures import squeezed

PUBLISHED_WORDS = 30  # kept of a caption by BLIP's evaluation, and TCR's after it


def clean_caption(text: str) -> str:
    """A caption as BLIP's published evaluation reads it: lower case, less punctuation, 30 words."""
    spaced = re.sub(r"\s{2,}", " ", re.sub(r'[.!"()*#:;~]', " ", text.lower()))
    return " ".join(spaced.strip().split(" ")[:PUBLISHED_WORDS])


@dataclass
class Words:
    """Texts to tokens, at most `limit` of them, padded to the longest text or to the limit."""

    tokenizer: Any
    limit: int
    to_the_limit: bool = False
    masked: bool = True
    cleaned: bool = False
    _warned: bool = False
    _lock: RenewedLock = field(default_factory=RenewedLock)  # a tokenizer is not reentrant

    def __call__(self, items: Sequence[str]) -> dict[str, Tensor]:
        """Token ids, and where they are not padding."""
        words = texts(items)
        if self.cleaned:
            words = [clean_caption(text) for text in words]
        with self._lock:
            tokens = self.tokenizer(
                words,
                padding="max_length" if self.to_the_limit else "longest",
                truncation=True,
                max_length=self.limit,
                return_attention_mask=True,
                return_tensors="pt",
            )
            full = tokens["attention_mask"].all(dim=1)
            self._warn_of_cuts([text for text, is_full in zip(words, full, strict=True) if is_full])
        wanted = ("input_ids", "attention_mask") if self.masked else ("input_ids",)
        return {name: tokens[name] for name in wanted}

    def _warn_of_cuts(self, full: Sequence[str]) -> None:
        """Say once that texts are cut; only a text that fills its row can have been."""
        if self._warned or not full:
            return
        longest = max(len(ids) for ids in self.tokenizer(list(full), verbose=False)["input_ids"])
        if longest > self.limit:
            self._warned = True
            warnings.warn(
                f"a text of {longest} tokens is longer than the {self.limit} this model takes: "
                "such texts are cut (said once).",
                stacklevel=5,
            )


@dataclass(frozen=True)
class Pictures:
    """Pictures to pixels; with `square`, squeezed to that side instead of scaled and cropped."""

    processor: Any
    square: int | None = None

    def __call__(self, items: Sequence[Any]) -> dict[str, Tensor]:
        """What the processor makes of the pictures."""
        images = pictures(items)
        if self.square is None:
            return dict(self.processor(images=images, return_tensors="pt"))
        squares = [squeezed(image, self.square) for image in images]
        return dict(
            self.processor(
                images=squares, do_resize=False, do_center_crop=False, return_tensors="pt"
            )
        )


@dataclass
class Sounds:
    """Sounds to spectrograms, at the model's own rate; what is too long is cut at its end."""

    extractor: Any
    _warned: bool = False

    def __call__(self, items: Sequence[Any]) -> dict[str, Tensor]:
        """Spectrograms, and that none stands for a sound that was longer."""
        rate, longest = self.extractor.sampling_rate, self.extractor.nb_max_samples
        waves = sounds(items, rate)
        self._warn_of_cuts(max(map(len, waves)) / rate, longest / rate)
        features = self.extractor(
            [wave[:longest] for wave in waves], sampling_rate=rate, return_tensors="pt"
        )["input_features"]
        # The library would pick one sound of the batch at random and call it a long one.
        none_is_longer = torch.zeros(len(waves), 1, dtype=torch.bool)
        return {
            "input_features": torch.as_tensor(np.asarray(features)),
            "is_longer": none_is_longer,
        }

    def _warn_of_cuts(self, seconds: float, most: float) -> None:
        if seconds > most and not self._warned:
            self._warned = True
            warnings.warn(
                f"a sound of {seconds:.1f} s is longer than the {most:g} s this model takes: "
                "such sounds are cut at their end (said once).",
                stacklevel=5,
            )
