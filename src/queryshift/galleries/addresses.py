"""Addresses of galleries: which engine opens which, by the text before the colon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from queryshift.support.tables import Table

from .candidate_checks import unit_vectors
from .searchable import Searchable

Opener: TypeAlias = Callable[[str], Searchable]

ENGINES: Table[Opener] = Table(
    "kind of gallery address",
    {
        "milvus": "queryshift.galleries.milvus:open",
        "postgres": "queryshift.galleries.postgres:open",
        "postgresql": "queryshift.galleries.postgres:open",
        "qdrant": "queryshift.galleries.qdrant:open",
        "qdrant-edge": "queryshift.galleries.qdrant.qdrant_edge:open",
        "faiss": "queryshift.galleries.faiss:open",
        "elasticsearch": "queryshift.galleries.elasticsearch:open",
        "opensearch": "queryshift.galleries.elasticsearch:open",
    },
)


def opener_of(address: str | Path) -> Opener | None:
    """What opens an engine's address or a Parquet file; None for the path of a gallery file."""
    if str(address).endswith(".parquet"):
        return _open_parquet
    kind, colon, rest = str(address).partition(":")
    if not colon or (kind not in ENGINES and not rest.startswith("//")):
        return None  # a path, which may have a colon in it
    return ENGINES[kind]


def _open_parquet(path: str) -> Searchable:
    from .memory.memory_gallery import Gallery
    from .memory.parquet_file import read_parquet

    ids, vectors, origin = read_parquet(Path(path))
    fingerprint = None if origin is None else origin.fingerprint
    return Gallery(ids, unit_vectors(vectors), fingerprint, origin)
