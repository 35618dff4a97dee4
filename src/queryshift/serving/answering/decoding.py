"""Queries as an encoder takes them: small ones at once, files in threads beside the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from queryshift.errors import BadFile, Error
from queryshift.media.images import image_size

from ..collection import Collection
from .queries import Raw, decoded, shown
from .queues import WorkQueue

AT_ONCE = ("text", "vector")  # kinds that need no thread to be read
SMALL_FILE = 2**14  # bytes, and
SMALL_IMAGE = 2**16  # pixels: decoded in less time than a thread takes to wake up


@dataclass(frozen=True)
class Readable:
    """A query as an encoder takes it, or the error that says why it cannot be read.

    Attributes:
        item: the query.
        shown: as it is kept to be looked at, if it is to be kept.
        error: what is wrong with it.
    """

    item: Any = None
    shown: dict[str, Any] | None = None
    error: Error | None = None


class Decoder:
    """Decodes the queries of one collection, those of all tenants in turn.

    Args:
        collection: says what one query is, and makes a large image small, as its encoder takes it.
        work: the threads that decode files.
    """

    def __init__(self, collection: Collection, work: WorkQueue) -> None:
        self._modality, self._work = collection.modality, work
        self._prepare = collection.reader.prepare_item
        self._keep = collection.settings.keep_queries > 0  # what is shown of them is made too

    async def decode(self, tenant: str, queries: Sequence[Raw]) -> list[Readable]:
        """The queries of a request; when cancelled, those still waiting are given up."""
        if self._modality in AT_ONCE or (len(queries) == 1 and self._is_small(queries[0])):
            return [self._decoded(raw) for raw in queries]
        return await self._work.do(tenant, [partial(self._decoded, raw) for raw in queries])

    def _is_small(self, raw: Raw) -> bool:
        """Whether a query is an image that is decoded at once."""
        if self._modality != "image" or not isinstance(raw, bytes) or len(raw) > SMALL_FILE:
            return False
        try:
            width, height = image_size(raw)
        except Error:
            return False  # the decoder says why
        return width * height <= SMALL_IMAGE

    def _decoded(self, raw: Raw) -> Readable:
        try:
            item = decoded(raw, self._modality)
            told = shown(item, self._modality) if self._keep else None
            large = self._modality == "image" and item.width * item.height > SMALL_IMAGE
            return Readable(self._prepare(item) if large else item, told)
        except Error as error:
            return Readable(error=error)
        except Exception as error:  # decoders raise anything
            return Readable(error=BadFile(f"what it holds cannot be read ({error!r})."))
