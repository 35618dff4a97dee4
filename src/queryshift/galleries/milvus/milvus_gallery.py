"""Milvus: a collection on a server or a cluster, or in a file of Milvus Lite."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput, EngineLost, Error

from ..engine import EngineGallery, Found
from ..engine_vectors import checked_engine_vectors
from ..engine_writer import Layout
from ..exact_engine import best_of_pieces
from ..hits import Id
from ..stored_vectors import LOOKED_AT, check_new, known_metric
from .milvus_collection import Collection, described
from .milvus_connection import Connection, split_address
from .milvus_writer import MilvusWriter

LARGEST = 16_384  # rows that Milvus gives per query or page
FETCHED = 1_000  # vectors of a sample fetched at once


class Milvus(EngineGallery):
    """Candidates in a Milvus collection, used as it is; its primary keys are the ids.

    Args:
        uri: "http://host:19530" or "https://…", or the path of a Milvus Lite file.
        collection: The collection's name; it is loaded where it is not.
        vector: The vector field, which may be left out where there is only one.
        token: "user:password" or an API key; MILVUS_TOKEN where none is given. Never printed.
        consistency: "Bounded" may miss the latest inserts; "Strong" waits for them, and was 36
            times slower in the same call.
        ef: Breadth of an HNSW search; at least 256 for shifted queries.
        nprobe: Lists that an IVF search looks through.
        timeout: Seconds that a call may take.

    Examples:
        >>> Milvus("http://localhost:19530", "captions")  # doctest: +SKIP
        Milvus(collection="captions", vector="vector")
    """

    def __init__(
        self,
        uri: str,
        collection: str,
        *,
        vector: str = "",
        token: str = "",
        consistency: str = "Bounded",
        ef: int = 256,
        nprobe: int = 64,
        timeout: float = 10.0,
    ) -> None:
        token = token or os.environ.get("MILVUS_TOKEN", "")
        self._connection = Connection(uri, token, timeout)
        self._consistency = consistency
        try:
            self._collection: Collection = described(self._connection, collection, vector)
            super().__init__(self._collection.dimension, timeout=timeout)
            self.origin = self._collection.origin
            self.metric = known_metric(collection, self._collection.metric)
            self.exact = self._collection.index == "FLAT"
            self.breadth = self._collection.breadth(ef, nprobe)
            checked_engine_vectors(self._first_rows(), self.dimension, self.metric)
        except Error:
            self._connection.close()
            raise

    def find(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """The best `count` candidates of each query with their vectors, all in one call."""
        limit = min(count, LARGEST)
        answers = self._ask_loaded(
            "search",
            data=list(queries),
            limit=limit,
            anns_field=self._collection.vector,
            output_fields=[self._collection.vector],
            search_params=self._collection.search_params(limit, self.breadth),
        )
        return [
            Found(
                [hit[self._collection.key] for hit in answer],
                self._array([hit["entity"][self._collection.vector] for hit in answer]),
            )
            for answer in answers
        ]

    def find_exact(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """The exact best of each query: every vector is read, page by page."""
        key, field = self._collection.key, self._collection.vector
        pages = (
            ([row[key] for row in rows], self._array([row[field] for row in rows]))
            for rows in self._pages([key, field], FETCHED)
        )
        return best_of_pieces(queries, pages, count)

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """`count` vectors drawn from all primary keys, in their order: a scan has its own first.

        The keys pass by page by page, and only those that were drawn are kept: an offset ends at
        16,384 rows, and Milvus' own samples (from 2.6 on, on servers only) take no seed.
        """
        total = self.count()
        drawn = np.random.default_rng(seed).choice(total, min(count, total), replace=False)
        wanted = self._keys_at(np.sort(drawn))
        parts = (wanted[start : start + FETCHED] for start in range(0, len(wanted), FETCHED))
        return self._array([row for part in parts for row in self._vectors_of(part)])

    def count(self) -> int:
        """The number of candidates."""
        return int(self._query(output_fields=["count(*)"])[0]["count(*)"])

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Those of the ids that the collection has."""
        asked = [one for one in ids if isinstance(one, self._collection.kind)]
        if not asked:
            return set()
        key = self._collection.key
        return {row[key] for row in self._query(filter=self._among(asked), output_fields=[key])}

    @property
    def version(self) -> str:
        """The number of candidates, and of rows written for them.

        A server counts a row that was updated twice, from when it was flushed until compaction.
        """
        written = self._connection.call("get_collection_stats", self._collection.name)["row_count"]
        return f"{self.count()} in {written} rows"

    @property
    def place(self) -> str:
        """Server or file, collection and field."""
        return f"{self._connection.place}/{self._collection.name}?vector={self._collection.vector}"

    def close(self) -> None:
        """Give the connection back; the next search makes it again."""
        self._connection.close()

    def __repr__(self) -> str:
        return f'Milvus(collection="{self._collection.name}", vector="{self._collection.vector}")'

    def _query(self, **asked: Any) -> Any:
        return self._ask_loaded("query", **asked)

    def _ask_loaded(self, verb: str, **asked: Any) -> Any:
        """Ask the collection, which a restarted server may have to load again first."""
        name = self._collection.name
        try:
            return self._connection.call(verb, name, consistency_level=self._consistency, **asked)
        except EngineLost as error:
            if "not loaded" in str(error):
                self._connection.call("load_collection", name)
            raise

    def _pages(self, fields: list[str], size: int) -> Iterator[list[dict[str, Any]]]:
        """All rows in the order of their keys; pymilvus' own iterator fails at quotes in keys."""
        key, after = self._collection.key, ""
        while rows := self._query(filter=after, limit=size, output_fields=fields):
            yield rows
            last = max(row[key] for row in rows)
            after = f"{key} > {json.dumps(last, ensure_ascii=False)}"

    def _keys_at(self, places: NDArray[np.int64]) -> list[Id]:
        """The primary keys at some places, given in order, of all keys in order."""
        key, first, keys = self._collection.key, 0, list[Id]()
        for page in self._pages([key], LARGEST):
            inside = places[(places >= first) & (places < first + len(page))] - first
            keys += [page[place][key] for place in inside]
            first += len(page)
        return keys

    def _first_rows(self) -> NDArray[np.float32]:
        field = self._collection.vector
        rows = self._query(limit=LOOKED_AT, output_fields=[field])
        if not rows:
            raise BadInput(
                f'collection "{self._collection.name}" is empty: fill it before a session uses it.'
            )
        return self._array([row[field] for row in rows])

    def _vectors_of(self, keys: list[Id]) -> list[Any]:
        """The vectors of these candidates, without those that were deleted meanwhile."""
        key, field = self._collection.key, self._collection.vector
        rows = self._query(filter=self._among(keys), output_fields=[key, field])
        stored = {row[key]: row[field] for row in rows}
        return [stored[one] for one in keys if one in stored]

    def _among(self, keys: Sequence[Id]) -> str:
        """An expression for these keys, whose quotes are escaped as JSON does."""
        return f"{self._collection.key} in {json.dumps(list(keys), ensure_ascii=False)}"

    def _array(self, rows: list[Any]) -> NDArray[np.float32]:
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.dimension)


def open(address: str) -> Milvus:
    """The collection at "milvus://host:19530/collection" or "milvus:///path/file.db/collection"."""
    uri, collection, options = split_address(address)
    return Milvus(uri, collection, **options)


def create(
    address: str,
    ids: Sequence[Id],
    vectors: NDArray[np.float32],
    index: str = "FLAT",
    metric: str = "COSINE",
) -> Milvus:
    """Write a new collection and open it.

    Args:
        address: As `open` takes it; a collection that is there already is refused.
        ids: An id for each candidate, all whole numbers or all text.
        vectors: Vectors (N, D).
        index: What Milvus calls the index: "FLAT", "HNSW", "AUTOINDEX".
        metric: "COSINE", "IP" or "L2".
    """
    array, writer = check_new(ids, vectors), MilvusWriter(address)
    whole = all(isinstance(one, int) for one in ids)
    layout = Layout(array.shape[1], whole, index, metric)
    with closing(writer):
        if writer.prepare(layout):
            raise BadInput("this collection is there already: drop it, or take another name.")
        writer.upsert(ids, array)
        writer.finish(layout)
    return open(address)
