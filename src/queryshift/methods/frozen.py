"""Frozen: the source model, unchanged; what every other method is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from queryshift.encoders.encoder import Encoder, Params
from queryshift.galleries import Searchable

from .base import Method


@dataclass(frozen=True, kw_only=True)
class Frozen(Method):
    """The source model without adaptation.

    The other arguments are those of `Method`.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.Frozen())
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    @property
    def adapting(self) -> bool:
        """Never."""
        return False

    def adapts(self, encoder: Encoder, gallery: Searchable) -> Params:
        """Nothing."""
        return {}
