"""Write candidates into a collection of an engine; writing them twice changes nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import GalleryMismatch
from queryshift.support.registry import Table

from .hits import Id
from .model_origin import ModelOrigin


@dataclass(frozen=True)
class Layout:
    """The shape of a gallery.

    Args:
        dimension: Length of a vector.
        whole_ids: Whether ids are whole numbers; else they are text.
        index: "exact" or "hnsw", or the engine's own word for an index.
        origin: The model that makes the vectors, if it is known.
        several: Vectors per candidate.
        metric: The engine's own word for a metric; "" for cosine.
    """

    dimension: int
    whole_ids: bool
    index: str = "exact"
    origin: ModelOrigin | None = None
    several: int = 1
    metric: str = ""


@dataclass(frozen=True, kw_only=True)
class Described:
    """What an engine says of a collection.

    Args:
        dimension: Length of a vector.
        metric: The engine's own word for a metric.
        origin: The model that made the vectors, if it is known.
        whole_ids: Whether ids are whole numbers, or text; None if they may be of both kinds.
    """

    dimension: int
    metric: str
    origin: ModelOrigin | None
    whole_ids: bool | None = None

    def of_kind(self, ids: Sequence[Id]) -> list[Id]:
        """Return those of the ids that can be in the collection."""
        kinds = {True: (int,), False: (str,), None: (int, str)}[self.whole_ids]
        return [one for one in ids if isinstance(one, kinds)]


class Writer(ABC):
    """Writes into a collection, and creates it if it does not exist.

    Args:
        name: The collection's name.
        connection: The engine's connection.
    """

    def __init__(self, name: str, connection: Any) -> None:
        self._name, self._connection = name, connection

    def prepare(self, layout: Layout) -> bool:
        """Create the collection, or check that it fits; return whether it existed."""
        exists = self.exists()
        if exists:
            self._check_fits(self.described(), layout)
        else:
            self.make(layout)
        if layout.origin is not None:
            self.keep_origin(layout.origin)
        return exists

    @abstractmethod
    def exists(self) -> bool:
        """Return whether the collection exists."""

    @abstractmethod
    def make(self, layout: Layout) -> None:
        """Create the collection."""

    @abstractmethod
    def described(self) -> Described:
        """Describe the existing collection."""

    @abstractmethod
    def keep_origin(self, origin: ModelOrigin) -> None:
        """Store with the collection which model makes its vectors."""

    @abstractmethod
    def upsert(self, ids: Sequence[Id], vectors: NDArray[np.float32]) -> None:
        """Insert vectors (N, D) or replace those with the same id; return when they are stored."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of candidates."""

    def finish(self, layout: Layout) -> None:  # noqa: B027  (most engines have nothing to do)
        """Create the index, if the engine has not done so already."""

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        self._connection.close()

    def _check_fits(self, there: Described, layout: Layout) -> None:
        """Refuse a collection of another dimension, model or kind of id."""
        if there.dimension != layout.dimension:
            raise GalleryMismatch(
                f'"{self._name}" has vectors of {there.dimension} dimensions, got '
                f"{layout.dimension}: take another name, or remove it first."
            )
        if there.whole_ids not in (None, layout.whole_ids):
            kinds = ("whole numbers", "text") if there.whole_ids else ("text", "whole numbers")
            raise GalleryMismatch(
                f'"{self._name}" has ids that are {kinds[0]}, got {kinds[1]}: take another name, '
                "or other ids."
            )
        origin, wanted = there.origin, layout.origin
        if origin and wanted and origin.fingerprint != wanted.fingerprint:
            raise GalleryMismatch(
                f'"{self._name}" was built by another encoder ({origin.model}, {origin.modality}, '
                f"fingerprint {origin.fingerprint}; this one has {wanted.fingerprint}): take "
                "another name, or remove it first."
            )


WriterOf: TypeAlias = Callable[[str], Writer]

WRITERS: Table[WriterOf] = Table(
    "kind of gallery address",
    {
        "milvus": "queryshift.galleries.milvus:MilvusWriter",
        "postgres": "queryshift.galleries.postgres.postgres_gallery:PostgresWriter",
        "postgresql": "queryshift.galleries.postgres.postgres_gallery:PostgresWriter",
        "qdrant": "queryshift.galleries.qdrant:QdrantWriter",
    },
)
