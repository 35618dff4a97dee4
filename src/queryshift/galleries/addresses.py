"""Addresses of galleries: which engine opens which, by the text before the colon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from queryshift.support.tables import Table

from .searchable import Searchable

Opener: TypeAlias = Callable[[str], Searchable]

ENGINES: Table[Opener] = Table(
    "kind of gallery address",
    {
        "milvus": "queryshift.galleries.milvus:open",
        "postgres": "queryshift.galleries.postgres:open",
        "postgresql": "queryshift.galleries.postgres:open",
        "qdrant": "queryshift.galleries.qdrant:open",
        "faiss": "queryshift.galleries.faiss:open",
    },
)


def opener_of(address: str | Path) -> Opener | None:
    """What opens an engine's address; None for the path of a gallery file."""
    kind, colon, rest = str(address).partition(":")
    if not colon or (kind not in ENGINES and not rest.startswith("//")):
        return None  # a path, which may have a colon in it
    return ENGINES[kind]
