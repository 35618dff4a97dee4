"""Queries as a request has them, as they wait to be learnt, and as an encoder takes them.

Small ones are decoded at once, files in threads beside the answers.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from queryshift.errors import BadFile, BadInput, Error
from queryshift.media.audio import read_audio
from queryshift.media.images import image_size, rgb
from queryshift.media.limits import check_bytes
from queryshift.media.text import text as checked_text

from .queues import WorkQueue
from .thumbnails import shown

if TYPE_CHECKING:
    from ..collection import Collection

# a query that takes little memory: text, a file's bytes, a vector, or an image with a text
Raw: TypeAlias = str | bytes | list[float] | tuple[bytes, str]

FILES = ("image", "audio")
AT_ONCE = ("text", "vector")  # kinds that need no thread to be read
SMALL_FILE = 2**14  # bytes, and
SMALL_IMAGE = 2**16  # pixels: decoded in less time than a thread takes to wake up


def raw_query(query: Mapping[str, Any], modality: str) -> Raw:
    """The query of a request, checked to be of the kind that its collection is asked with.

    Args:
        query: what a body or a file has: `{"text": ...}`, `{"image": bytes or base64}`.
        modality: what one query of the collection is: "image", "text", "image+text", "vector".

    Returns:
        Text, bytes or numbers; nothing is decoded yet but the base64.
    """
    parts = {name: value for name, value in query.items() if value is not None}
    expected = modality.split("+")
    if sorted(parts) != sorted(expected):
        got = " and ".join(sorted(parts)) or "nothing"
        raise BadInput(f"got a query of {got}, expected {' and '.join(expected)}.")
    for name in FILES:
        if name in parts:
            parts[name] = _file(name, parts[name])
    values = [parts[name] for name in expected]
    return values[0] if len(values) == 1 else (values[0], values[1])


def decoded(raw: Raw, modality: str) -> Any:
    """The query as an encoder takes it; sizes are looked at before a file is decoded."""
    if isinstance(raw, tuple):
        return decoded(raw[0], "image"), checked_text(raw[1])
    if modality == "text":
        return checked_text(raw)
    if modality == "image":
        return rgb(raw)
    if modality == "audio":
        return read_audio(raw)  # type: ignore[arg-type]
    return raw


def small(item: Any, collection: Collection) -> Any:
    """A decoded query; one with a large image as the encoder's tensors, which are smaller."""
    image = item[0] if isinstance(item, tuple) else item
    large = "image" in collection.modality and image.width * image.height > SMALL_IMAGE
    return collection.reader.prepare_item(item) if large else item


def size_of(raw: Raw) -> int:
    """Bytes that a waiting query takes, about."""
    if isinstance(raw, tuple):
        return len(raw[0]) + len(raw[1])
    return 8 * len(raw) if isinstance(raw, list) else len(raw)


def _file(name: str, value: bytes | str) -> bytes:
    """The bytes of a file, within the limits; those in an operator's file are in base64."""
    check_bytes(len(value) if isinstance(value, bytes) else len(value) * 3 // 4)
    try:
        return value if isinstance(value, bytes) else base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"{name} is no base64 ({error}).") from None


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
        self._collection, self._modality, self._work = collection, collection.modality, work
        self._keep = collection.settings.keep_queries > 0  # what is shown of them is made too

    def item(self, raw: Raw) -> Any:
        """A query as the encoder takes it, a large image made small; in any thread."""
        return small(decoded(raw, self._modality), self._collection)

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
            return Readable(small(item, self._collection), told)
        except Error as error:
            return Readable(error=error)
        except Exception as error:  # decoders raise anything
            return Readable(error=BadFile(f"what it holds cannot be read ({error!r})."))
