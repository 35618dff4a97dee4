"""The plan of a build: items with their ids, split into shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from queryshift.errors import BadInput
from queryshift.galleries.candidate_checks import checked_ids
from queryshift.galleries.hits import Id
from queryshift.media.item_collection import Collection, as_collection, kind_of
from queryshift.media.lazy_items import LazyItems
from queryshift.media.records import check_columns


@dataclass(frozen=True)
class Shard:
    """Items that are encoded and recorded together."""

    number: int
    ids: Sequence[Id]
    items: Sequence[Any]


@dataclass(frozen=True)
class Plan:
    """All items in order.

    Args:
        collection: The items and their ids.
        shard_size: Items per shard.
    """

    collection: Collection
    shard_size: int

    @property
    def whole_ids(self) -> bool:
        """Whether all ids are whole numbers."""
        return all(isinstance(one, int) for one in self.collection.ids)

    def shards(self) -> Iterator[Shard]:
        """Yield the shards in order, without opening their items."""
        for number, start in enumerate(range(0, len(self.collection), self.shard_size)):
            rows = slice(start, start + self.shard_size)
            yield Shard(number, self.collection.ids[rows], self.collection.items[rows])

    def digest(self, *more: object) -> str:
        """Return a hash of the ids, the items, the shard size, and other values."""
        digest = blake2b(repr((self.shard_size, *more)).encode(), digest_size=16)
        for one, item in zip(self.collection.ids, _traces(self.collection.items), strict=True):
            digest.update(repr(one).encode() + b"\0" + item + b"\0")
        return digest.hexdigest()


def plan(items: Any, columns: Mapping[str, str], shard_size: int) -> Plan:
    """Make a plan for a path, several paths, `{id: item}` or a list of items."""
    given = items if _are_collections(items) else [items]
    check_columns(columns, given)
    parts = [as_collection(one, columns, check_rows=False) for one in given]
    modalities = {part.modality for part in parts}
    if len(modalities) != 1:
        raise BadInput(
            f"got items of the kinds {', '.join(sorted(modalities))}, expected one: build a "
            "gallery of each."
        )
    joined = parts[0] if len(parts) == 1 else _joined(modalities.pop(), parts)
    checked_ids(joined.ids, len(joined))
    return Plan(joined, shard_size)


def _are_collections(items: Any) -> bool:
    """Return whether these are folders and tables, not images or audio files."""
    return isinstance(items, list | tuple) and all(
        isinstance(one, Path) and not kind_of(one) for one in items
    )


def _joined(modality: str, parts: Sequence[Collection]) -> Collection:
    ids = list(chain.from_iterable(part.ids for part in parts))
    if all(isinstance(part.items, LazyItems) for part in parts):
        sources = chain.from_iterable(part.items.sources for part in parts)  # type: ignore[attr-defined]
        return Collection(modality, ids, LazyItems(list(sources)))
    return Collection(modality, ids, list(chain.from_iterable(part.items for part in parts)))


def _traces(items: Sequence[Any]) -> Iterator[bytes]:
    """Yield bytes that identify items without opening them: the text, the path, the numbers."""
    if isinstance(items, LazyItems):
        for source in items.sources:
            yield repr(source).encode()
        return
    for item in items:
        yield item.encode(errors="replace") if isinstance(item, str) else _numbers(item)


def _numbers(item: Any) -> bytes:
    array = np.asarray(item)
    return repr(item).encode() if array.dtype == object else array.tobytes()
