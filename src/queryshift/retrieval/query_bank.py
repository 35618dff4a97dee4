"""A bank: the latest query vectors of a stream, each once, in half precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from queryshift.galleries import EngineGallery, Searchable
from queryshift.support.lazy import lazy_property

from .vector_checks import UNIT_TOLERANCE

MIXER = 0x9E3779B97F4A7C15 - 2**64  # an odd number whose multiples spread over 64 bits


@dataclass(frozen=True)
class QueryBank:
    """The latest query vectors of a stream. A value: it never changes."""

    vectors: Tensor  # (n, D), half precision, the latest last
    firsts: Tensor  # (n,), the position of each one's first place, before any correction
    claims: Tensor  # (n,), the same after correction, when it came
    unsure: Tensor  # (n,), the chance that its best scores stood out as far by accident

    @classmethod
    def empty(cls, dimension: int, device: torch.device) -> Self:
        """A bank without queries."""
        return cls(
            torch.empty(0, dimension, dtype=torch.float16, device=device),
            torch.empty(0, dtype=torch.long, device=device),
            torch.empty(0, dtype=torch.long, device=device),
            torch.empty(0, device=device),
        )

    def __len__(self) -> int:
        return len(self.vectors)

    def lacks(self, keys: Tensor) -> Tensor:
        """Which of some queries (B,), by their keys, neither the bank nor an earlier one is."""
        return ~(repeated(keys) | (keys[:, None] == self.keys).any(dim=1))

    def others(self, keys: Tensor) -> Tensor:
        """Which rows (n,) of the bank are none of some queries (B,), by their keys."""
        return (keys[:, None] != self.keys).all(dim=0)

    def split(self, size: int) -> tuple[QueryBank, QueryBank]:
        """The rows that are too many for a bank of this size, and the others."""
        left = max(0, len(self) - size)
        return self.taking(slice(None, left)), self.taking(slice(left, None))

    def joined(self, later: QueryBank) -> QueryBank:
        """This bank's rows and, behind them, those of another."""
        pairs = zip(self._parts(), later._parts(), strict=True)
        joined = QueryBank(*(torch.cat(pair) for pair in pairs))
        vars(joined)["keys"] = torch.cat((self.keys, later.keys))
        return joined

    def taking(self, rows: Tensor | slice) -> QueryBank:
        """Some of this bank's rows."""
        some = QueryBank(*(part[rows] for part in self._parts()))
        vars(some)["keys"] = self.keys[rows]
        return some

    @lazy_property
    def keys(self) -> Tensor:
        """A hash (n,) of each vector: no part of what is saved."""
        return keys_of(self.vectors)

    def moved(self, gallery: Searchable) -> QueryBank:
        """The same queries before another gallery: their first places are searched for anew."""
        if len(self) == 0:
            return self
        firsts = gallery.search(self.vectors.float(), 1).positions[:, 0]
        return replace(self, firsts=firsts, claims=firsts)

    def check(self, gallery: Searchable) -> None:
        """Refuse, with a ValueError, a bank from a file that this gallery could not be asked with.

        Args:
            gallery: The session's gallery.
        """
        shape, rows = tuple(self.vectors.shape), len(self.vectors)
        if self.vectors.ndim != 2 or shape[1] != gallery.dimension:
            raise ValueError(
                f"the bank's vectors have shape {shape}, expected {gallery.dimension} dimensions"
            )
        lengths = torch.linalg.vector_norm(self.vectors.float(), dim=1)
        if not bool(((lengths - 1).abs() <= UNIT_TOLERANCE).all()):  # NaN is not
            raise ValueError("the bank's vectors are not finite or not of unit length")
        for places in (self.firsts, self.claims):
            if places.shape != (rows,) or places.dtype != torch.long:
                raise ValueError(f"the bank has no first place for each of its {rows} queries")
            engine = isinstance(gallery, EngineGallery)  # whose positions are handles, made anew
            if not engine and rows and not bool(((places >= 0) & (places < len(gallery))).all()):
                raise ValueError(f"the bank's first places are not among {len(gallery)} candidates")
        shares = (self.unsure >= 0) & (self.unsure <= 1)
        if self.unsure.shape != (rows,) or not bool(shares.all()):
            raise ValueError("how unsure the bank's queries were is no share of 1 for each")

    def _parts(self) -> tuple[Tensor, ...]:
        return self.vectors, self.firsts, self.claims, self.unsure


def repeated(keys: Tensor) -> Tensor:
    """Which of some queries (B,), by their keys, an earlier one is too."""
    return (keys[:, None] == keys).tril(-1).any(dim=1)


def keys_of(vectors: Tensor) -> Tensor:
    """A hash (n,) of each vector in half precision: equal vectors have equal ones."""
    bits = vectors.detach().to(torch.float16).contiguous().view(torch.int16).long()
    places = torch.arange(1, bits.shape[1] + 1, device=bits.device)
    mixed = (bits + places * MIXER) * MIXER  # wraps around
    mixed = (mixed ^ (mixed >> 29)) * (2 * places + 1)
    return mixed.sum(dim=1)
