"""Frozen: the source model, unchanged; what every other method is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from queryshift.encoders.encoder import Encoder, Params
from queryshift.galleries import Searchable

from .base import Method


@dataclass(frozen=True, kw_only=True)
class Frozen(Method):
    """Never adapts."""

    @property
    def adapting(self) -> bool:
        """Never."""
        return False

    def adapts(self, encoder: Encoder, gallery: Searchable) -> Params:
        """Nothing."""
        return {}
