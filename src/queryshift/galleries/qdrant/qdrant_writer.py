"""Candidates written into a collection of Qdrant, each by its id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from queryshift.support.optional import need

from ..engine_writer import Layout, check_fits
from ..hits import Id
from ..model_origin import ModelOrigin
from .qdrant_connection import Connection, described, split_address
from .qdrant_ids import check_new_ids

WRITING = 60.0  # seconds that a call may take
SENT = 1_000  # points at once


class QdrantWriter:
    """Writes into the collection at an address; it is made where it is not there.

    Args:
        address: As `Gallery.open` takes it.
    """

    def __init__(self, address: str) -> None:
        self._models = need("qdrant_client.models", "qdrant", "a gallery in Qdrant")
        location, self._name, options = split_address(address)
        self._connection = Connection(location, options.get("key", ""), WRITING)
        self._vector = options.get("vector", "")

    def prepare(self, layout: Layout) -> bool:
        """Make the collection, whose index Qdrant makes itself, or see that it fits."""
        there = bool(self._connection.call("collection_exists", self._name))
        told = {} if layout.origin is None else {ModelOrigin.KEY: layout.origin.as_text()}
        if there:
            size, _, origin = described(self._connection, self._name, self._vector)
            check_fits(self._name, size, origin, layout)
            self._connection.call("update_collection", self._name, metadata=told)
            return True
        distance = self._models.Distance(layout.metric or "Cosine")
        one = self._models.VectorParams(size=layout.dimension, distance=distance)
        vectors = {self._vector: one} if self._vector else one
        self._connection.call(
            "create_collection", self._name, vectors_config=vectors, metadata=told
        )
        return False

    def upsert(self, ids: Sequence[Id], vectors: NDArray[np.float32]) -> None:
        """Insert points, or replace those of the same id, and wait until they are stored."""
        check_new_ids(ids)
        for start in range(0, len(vectors), SENT):
            part = zip(
                ids[start : start + SENT], vectors[start : start + SENT].tolist(), strict=True
            )
            points = [
                self._models.PointStruct(
                    id=key, vector={self._vector: row} if self._vector else row
                )
                for key, row in part
            ]
            self._connection.call("upsert", self._name, points=points, wait=True)

    def count(self) -> int:
        """The number of points."""
        return int(self._connection.call("count", self._name, exact=True).count)

    def finish(self, layout: Layout) -> None:
        """Nothing is left to do: Qdrant makes its index by itself."""

    def close(self) -> None:
        """Give the connection back; the next call makes it again."""
        self._connection.close()
