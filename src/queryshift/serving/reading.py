"""Queries read beside the answers: decoded in threads of their own, each or why not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from queryshift.errors import Error

from .queries import Raw, decoded, shown

AT_ONCE = ("text", "vector")  # kinds that need no thread to be read


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


async def read_all(
    queries: Sequence[Raw], modality: str, keep: bool, decoders: Executor
) -> list[Readable]:
    """The queries of a request, read; `keep` makes what is shown of them too."""
    if modality in AT_ONCE:
        return [_read(raw, modality, keep) for raw in queries]
    loop = asyncio.get_running_loop()
    work = (loop.run_in_executor(decoders, _read, raw, modality, keep) for raw in queries)
    return list(await asyncio.gather(*work))


def _read(raw: Raw, modality: str, keep: bool) -> Readable:
    try:
        item = decoded(raw, modality)
        return Readable(item, shown(item, modality) if keep else None)
    except Error as error:
        return Readable(error=error)
