"""Qdrant: a collection on a server, or in a folder of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput, Error
from queryshift.support.optional import need

from ..engine import EngineGallery, Found
from ..engine_vectors import checked_engine_vectors
from ..engine_writer import Layout
from ..hits import Id
from ..search_effort import SearchEffort
from ..stored_vectors import LOOKED_AT, check_new, known_metric, plain_id
from .qdrant_connection import Connection, described, split_address
from .qdrant_ids import can_be_an_id
from .qdrant_writer import QdrantWriter

LARGEST_EF = 16_384


class Qdrant(EngineGallery):
    """Candidates in a Qdrant collection, used as it is; its points' ids are the ids.

    Args:
        location: "http://host:6333" or "https://…", or a folder of this machine.
        collection: The collection's name.
        vector: The name of the vector where points have named ones.
        key: An API key; QDRANT_API_KEY where none is given. Never printed.
        ef: Breadth of an HNSW search; at least 256 for shifted queries.
        exact: Search without the index.
        timeout: Seconds that a call may take.

    Examples:
        >>> Qdrant("http://localhost:6333", "captions")  # doctest: +SKIP
        Qdrant(collection="captions", vector="")
    """

    def __init__(
        self,
        location: str,
        collection: str,
        *,
        vector: str = "",
        key: str = "",
        ef: int = 256,
        exact: bool = False,
        timeout: float = 10.0,
    ) -> None:
        self._models = need("qdrant_client.models", "qdrant", "a gallery in Qdrant")
        self._connection = Connection(location, key, timeout)
        self._collection, self._vector = collection, vector
        self.exact = exact or not self._connection.remote  # which has no index
        self.breadth = None if self.exact else SearchEffort("ef", ef, LARGEST_EF)
        try:
            self._connection.check_version()
            size, distance, self.origin = described(self._connection, collection, vector)
            super().__init__(size, timeout=timeout)
            self.metric = known_metric(collection, distance)
            checked_engine_vectors(self.sample(LOOKED_AT, 0), self.dimension, self.metric)
        except Error:
            self._connection.close()
            raise

    def find(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """The best `count` points of each query with their vectors, all in one call."""
        if self.breadth is None:
            return self.find_exact(queries, count)
        ef = max(self.breadth.value, count)
        return self._searched(queries, count, self._models.SearchParams(hnsw_ef=ef))

    def find_exact(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """The best `count` points of each query without the index."""
        return self._searched(queries, count, self._models.SearchParams(exact=True))

    def _searched(self, queries: NDArray[np.float32], count: int, how: Any) -> list[Found]:
        requests = [
            self._models.QueryRequest(
                query=query.tolist(),
                using=self._vector or None,
                limit=count,
                params=how,
                with_vector=True,
            )
            for query in queries
        ]
        answers = self._connection.call("query_batch_points", self._collection, requests=requests)
        return [
            Found([plain_id(point.id) for point in answer.points], self._array(answer.points))
            for answer in answers
        ]

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """`count` vectors that Qdrant draws, which takes no seed; all in their order of fewer."""
        if self.count() <= count:
            points, _ = self._connection.call(
                "scroll", self._collection, limit=max(count, 1), with_vectors=True
            )
            return self._array(points)
        query = self._models.SampleQuery(sample=self._models.Sample.RANDOM)
        answer = self._connection.call(
            "query_points",
            self._collection,
            query=query,
            using=self._vector or None,
            limit=count,
            with_vectors=True,
        )
        return self._array(answer.points)

    def count(self) -> int:
        """The number of points."""
        return int(self._connection.call("count", self._collection, exact=True).count)

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Those of the ids that the collection has."""
        asked = [one for one in ids if can_be_an_id(one)]
        found = self._connection.call(
            "retrieve", self._collection, ids=asked, with_payload=False, with_vectors=False
        )
        return {plain_id(point.id) for point in found}.intersection(ids)

    @property
    def place(self) -> str:
        """Server or folder, collection and vector."""
        return f"{self._connection.place}/{self._collection}?vector={self._vector}"

    def close(self) -> None:
        """Give the connection back; the next search makes it again."""
        self._connection.close()

    def __repr__(self) -> str:
        return f'Qdrant(collection="{self._collection}", vector="{self._vector}")'

    def _array(self, points: Sequence[Any]) -> NDArray[np.float32]:
        rows = [point.vector[self._vector] if self._vector else point.vector for point in points]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.dimension)


def open(address: str) -> Qdrant:
    """The collection at "qdrant://host:6333/collection" or "qdrant:///folder/collection"."""
    location, collection, options = split_address(address)
    return Qdrant(location, collection, **options)


def create(
    address: str, ids: Sequence[Id], vectors: NDArray[np.float32], distance: str = "Cosine"
) -> Qdrant:
    """Write a new collection and open it.

    Args:
        address: As `open` takes it; a collection that is there already is refused.
        ids: An id for each candidate: whole numbers from 0 on, or UUIDs as text.
        vectors: Vectors (N, D).
        distance: "Cosine", which stores them at unit length, "Dot" or "Euclid".
    """
    array, writer = check_new(ids, vectors), QdrantWriter(address)
    layout = Layout(array.shape[1], all(isinstance(one, int) for one in ids), metric=distance)
    with closing(writer):
        if writer.prepare(layout):
            raise BadInput("this collection is there already: drop it, or take another name.")
        writer.upsert(ids, array)
    return open(address)
