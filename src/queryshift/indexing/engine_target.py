"""A gallery in a search engine: shards are written into it as they come, each row by its id."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from torch import Tensor

from queryshift.errors import EngineLost
from queryshift.galleries.engine_writer import WRITERS, Layout, Writer
from queryshift.galleries.hits import Id

from .journal import Receipt
from .targets import Content, one_vector_each

TRIES, FIRST_WAIT = 5, 0.5  # seconds before the first retry; each further wait is twice as long


class EngineTarget:
    """A collection at an address, which any process can write into if it is on a server.

    Args:
        to: The address.
    """

    def __init__(self, to: str) -> None:
        self._to = to
        self._kind = to.partition(":")[0]
        self._make = WRITERS[self._kind]
        self.workers_write = bool(urlsplit(to).hostname) or self._kind.startswith("postgres")
        self._layout: Layout
        self._open: Writer | None = None

    def begin(self, content: Content, finished: Sequence[Receipt]) -> set[int]:
        """Make the collection; all shards are lost where it has fewer rows than they."""
        one_vector_each(content, f"a collection of {self._kind}")
        self._layout = Layout(
            content.dimension, content.whole_ids, content.index, origin=content.origin
        )
        there = self._writer.prepare(self._layout)
        rows = sum(receipt.rows for receipt in finished)
        if rows and (not there or self._writer.count() < rows):
            return {receipt.shard for receipt in finished}
        return set()

    def write(self, shard: int, ids: Sequence[Id], vectors: Tensor) -> None:
        """Store a shard's rows; those that are there already are replaced."""
        rows = vectors[:, 0].numpy()
        for attempt in range(TRIES):
            try:
                self._writer.upsert(ids, rows)
                return
            except EngineLost:
                if attempt == TRIES - 1:
                    raise
                time.sleep(FIRST_WAIT * 2**attempt)

    def finish(self, receipts: Sequence[Receipt]) -> None:
        """Index the rows, and see that all are there."""
        self._writer.finish(self._layout)
        rows, there = sum(receipt.rows for receipt in receipts), self._writer.count()
        if there < rows:
            raise EngineLost(
                f"the collection has {there:,} candidates, {rows:,} were written: were some "
                "removed? Build again with --restart."
            )

    def close(self) -> None:
        """Give the connection back."""
        if self._open is not None:
            self._open.close()

    @property
    def _writer(self) -> Writer:
        if self._open is None:
            self._open = self._make(self._to)
        return self._open

    def __getstate__(self) -> dict[str, Any]:
        """Leave the connection out: another process opens its own."""
        return {**vars(self), "_open": None}
