"""Captions to tokens, with a model's own tokenizer."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from queryshift.media.text import texts
from queryshift.support.threads import RenewedLock

PUBLISHED_WORDS = 30  # of a caption that BLIP's and TCR's evaluations keep


def clean_caption(text: str) -> str:
    """Clean a caption as BLIP's evaluation does: lower case, less punctuation, 30 words."""
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
    lower_case: bool = False
    prompt: str = ""
    """The start of every text."""
    _warned: bool = False
    _lock: RenewedLock = field(default_factory=RenewedLock)  # a tokenizer is not reentrant

    def __call__(self, items: Sequence[str]) -> dict[str, Tensor]:
        """Return token ids and the mask of tokens that are not padding."""
        words = texts(items)
        if self.cleaned:
            words = [clean_caption(text) for text in words]
        words = [self.prompt + text for text in words]
        if self.lower_case:
            words = [text.lower() for text in words]
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
        """Warn once that texts are cut; only texts that fill their row can be cut."""
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
