"""A shard's items become vectors; those that cannot be read are left out and reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadFile, BadInput, BadItem
from queryshift.galleries.candidate_checks import checked_vectors
from queryshift.galleries.hits import Id
from queryshift.support.torch_modes import adaptation_modes

from .journal import BadRow, Receipt
from .plan import Shard


@dataclass(frozen=True)
class Encoded:
    """What became of a shard: vectors (N, V, D), None where they are written already."""

    receipt: Receipt
    ids: Sequence[Id]
    vectors: Tensor | None


@adaptation_modes()
def encode_shard(encoder: Encoder, shard: Shard, batch_size: int, strict: bool = False) -> Encoded:
    """The vectors of a shard's items; with `strict`, the first bad item is an error."""
    ids: list[Id] = []
    parts: list[Tensor] = []
    bad: list[BadRow] = []
    for start in range(0, len(shard.ids), batch_size):
        rows = range(start, min(start + batch_size, len(shard.ids)))
        items = _opened(shard, rows, bad)
        vectors = _encoded(encoder, items, bad)
        if strict and bad:
            raise BadInput(f"item {bad[0].id!r}: {bad[0].reason}")
        if vectors is not None:
            ids += items
            parts.append(vectors.to("cpu", torch.float32))
    receipt = Receipt(shard.number, len(ids), tuple(bad))
    return Encoded(receipt, ids, torch.cat(parts) if parts else None)


def _opened(shard: Shard, rows: Sequence[int], bad: list[BadRow]) -> dict[Id, Any]:
    """The items of these rows by id, without those that cannot be opened."""
    items: dict[Id, Any] = {}
    for row in rows:
        try:
            item = shard.items[row]
        except (BadFile, BadInput) as error:
            bad.append(BadRow(shard.ids[row], str(error)))
            continue
        if item is None or (isinstance(item, str) and not item.strip()):
            bad.append(BadRow(shard.ids[row], "it is empty."))
        else:
            items[shard.ids[row]] = item
    return items


def _encoded(encoder: Encoder, items: dict[Id, Any], bad: list[BadRow]) -> Tensor | None:
    """Vectors (N, V, D) of the items; one that the encoder refuses is taken out of them."""
    while items:
        try:
            vectors = encoder.encode(list(items.values()))
        except BadItem as error:
            _leave_out(items, [error.index], error.reason, bad)
            continue
        broken = ~torch.isfinite(vectors).flatten(1).all(dim=1)
        places = broken.nonzero().flatten().tolist()
        _leave_out(items, places, "its vector has NaN or infinite values.", bad)
        if items:
            return checked_vectors(vectors[~broken], rescale=False)
    return None


def _leave_out(items: dict[Id, Any], places: list[int], reason: str, bad: list[BadRow]) -> None:
    ids = list(items)
    for place in places:
        bad.append(BadRow(ids[place], reason))
        del items[ids[place]]
