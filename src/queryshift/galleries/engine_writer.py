"""What writes candidates into a collection of an engine, and may do so again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import GalleryMismatch
from queryshift.support.tables import Table

from .hits import Id
from .model_origin import ModelOrigin


@dataclass(frozen=True)
class Layout:
    """What a collection is made for.

    Args:
        dimension: Length of a vector.
        whole_ids: Whether ids are whole numbers; else they are text.
        index: "exact" or "hnsw", or the engine's own word for an index.
        metric: The engine's own word for a metric; "" for cosine.
        origin: The model that makes the vectors, where it is known.
    """

    dimension: int
    whole_ids: bool
    index: str = "exact"
    metric: str = ""
    origin: ModelOrigin | None = None


class Writer(Protocol):
    """A collection that is written to; candidates that are there already are replaced."""

    def prepare(self, layout: Layout) -> bool:
        """Make the collection, or see that the one there fits; whether it was there already."""

    def upsert(self, ids: Sequence[Id], vectors: NDArray[np.float32]) -> None:
        """Store vectors (N, D); when this returns, the engine has them."""

    def count(self) -> int:
        """How many candidates the collection has."""

    def finish(self, layout: Layout) -> None:
        """Index what was written, where that is not done already."""

    def close(self) -> None:
        """Give the connection back."""


WriterOf: TypeAlias = Callable[[str], Writer]

WRITERS: Table[WriterOf] = Table(
    "kind of gallery address",
    {
        "milvus": "queryshift.galleries.milvus.milvus_writer:MilvusWriter",
        "postgres": "queryshift.galleries.postgres.postgres_writer:PostgresWriter",
        "postgresql": "queryshift.galleries.postgres.postgres_writer:PostgresWriter",
        "qdrant": "queryshift.galleries.qdrant.qdrant_writer:QdrantWriter",
    },
)


def check_fits(name: str, dimension: int, origin: ModelOrigin | None, layout: Layout) -> None:
    """Refuse to add to a collection of another dimension, or by another model."""
    if dimension != layout.dimension:
        raise GalleryMismatch(
            f'"{name}" has vectors of {dimension} dimensions, got {layout.dimension}: take another '
            "name, or remove it first."
        )
    wanted = layout.origin
    if origin and wanted and origin.fingerprint != wanted.fingerprint:
        raise GalleryMismatch(
            f'"{name}" was built by another encoder ({origin.model}, {origin.modality}, '
            f"fingerprint {origin.fingerprint}; this one has {wanted.fingerprint}): take another "
            "name, or remove it first."
        )
