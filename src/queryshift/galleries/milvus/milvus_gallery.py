"""Milvus: a collection on a server or a cluster, or in a file of Milvus Lite."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput, EngineLost, Error, GalleryMismatch
from queryshift.support.optional import need

from ..candidate_checks import LOOKED_AT
from ..engine import EngineGallery
from ..engine_writer import Layout, Writer
from ..hits import Id
from ..model_origin import ModelOrigin
from ..seen_candidates import Found, best_of_pieces
from .milvus_connection import Collection, Connection, described, read_address

LARGEST = 16_384  # rows that Milvus gives per query or page
FETCHED = 1_000  # vectors of a sample fetched at once
WRITING = 60.0  # seconds that a call may take while writing
SENT = 1_000  # rows written at once
INDEXES = {"exact": "FLAT", "hnsw": "HNSW"}
GRAPH = {"M": 32, "efConstruction": 256}


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
        self._connection, self._consistency = Connection(uri, token, timeout), consistency
        try:
            self._collection: Collection = described(self._connection, collection, vector)
            super().__init__(self._collection.dimension, timeout=timeout)
            self.origin = self._collection.origin
            self.exact = self._collection.index == "FLAT"
            self.search_effort = self._collection.search_effort(ef, nprobe)
            self._check_stored(collection, self._collection.metric, self._first_rows())
        except Error:
            self._connection.close()
            raise

    def find(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """The best `count` candidates of each query with their vectors, all in one call."""
        limit, key, field = min(count, LARGEST), self._collection.key, self._collection.vector
        wanted = {"data": list(queries), "limit": limit, "output_fields": [field]}
        params = self._collection.search_params(limit, self.search_effort)
        answers = self._ask_loaded("search", anns_field=field, search_params=params, **wanted)
        return [
            Found([hit[key] for hit in hits], self._array([hit["entity"][field] for hit in hits]))
            for hits in answers
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
        """The vectors of these candidates, without those deleted since."""
        key, field = self._collection.key, self._collection.vector
        rows = self._query(filter=self._among(keys), output_fields=[key, field])
        stored = {row[key]: row[field] for row in rows}
        return [stored[one] for one in keys if one in stored]

    def _among(self, keys: Sequence[Id]) -> str:
        """An expression for these keys, whose quotes are escaped as JSON does."""
        return f"{self._collection.key} in {json.dumps(list(keys), ensure_ascii=False)}"

    def _array(self, rows: list[Any]) -> NDArray[np.float32]:
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.dimension)


class MilvusWriter(Writer):
    """Writes into the collection at an address, each row by its primary key.

    Args:
        address: As `Gallery.open` takes it.
    """

    def __init__(self, address: str) -> None:
        self._kinds = need("pymilvus", "milvus", "a gallery in Milvus").DataType
        uri, name, options = read_address(address)
        super().__init__(name, Connection(uri, options.get("token", ""), WRITING))
        self._vector = options.get("vector", "")
        self._key = ""  # until the collection is made or looked up

    def exists(self) -> bool:
        """Return whether the collection exists."""
        return bool(self._connection.call("has_collection", self._name))

    def make(self, layout: Layout) -> None:
        """Create the collection with its index."""
        self._key, self._vector = "id", self._vector or "vector"
        schema = self._connection.call("create_schema")
        indexes = self._connection.call("prepare_index_params")
        if layout.whole_ids:
            schema.add_field(self._key, self._kinds.INT64, is_primary=True)
        else:
            schema.add_field(self._key, self._kinds.VARCHAR, is_primary=True, max_length=65_535)
        schema.add_field(self._vector, self._kinds.FLOAT_VECTOR, dim=layout.dimension)
        index = INDEXES.get(layout.index, layout.index)
        more: dict[str, Any] = {"params": GRAPH} if index == "HNSW" else {}
        metric = layout.metric or "COSINE"
        indexes.add_index(self._vector, index_type=index, metric_type=metric, **more)
        self._connection.call("create_collection", self._name, schema=schema, index_params=indexes)

    def check(self, layout: Layout) -> None:
        """Refuse a collection of another dimension, model or type of key."""
        collection = described(self._connection, self._name, self._vector)
        self._check_fits(collection.dimension, collection.origin, layout)
        if (collection.kind is int) != layout.whole_ids:
            raise GalleryMismatch(
                f'collection "{self._name}" has keys of the type {collection.kind.__name__}, got '
                "others: take another collection, or other ids."
            )

    def keep_origin(self, origin: ModelOrigin) -> None:
        """Store the model as a property of the collection."""
        told = {ModelOrigin.KEY: origin.as_text()}
        self._connection.call("alter_collection_properties", self._name, properties=told)

    def upsert(self, ids: Sequence[Id], vectors: NDArray[np.float32]) -> None:
        """Insert rows, or replace those of the same key, and wait until they are stored."""
        if not self._key:  # another process has created the collection
            collection = described(self._connection, self._name, self._vector)
            self._vector, self._key = collection.vector, collection.key
        for start in range(0, len(vectors), SENT):
            part = zip(ids[start : start + SENT], vectors[start : start + SENT], strict=True)
            rows = [{self._key: one, self._vector: row} for one, row in part]
            self._connection.call("upsert", self._name, data=rows)

    def count(self) -> int:
        """Return the number of candidates, the latest ones too."""
        fields, told = ["count(*)"], {"consistency_level": "Strong"}
        rows = self._connection.call("query", self._name, output_fields=fields, **told)
        return int(rows[0]["count(*)"])

    def finish(self, layout: Layout) -> None:
        """Flush everything to disk; Milvus indexes rows as they come."""
        self._connection.call("flush", self._name)


def open(address: str) -> Milvus:
    """Open the collection at "milvus://host:19530/name" or "milvus:///path/file.db/name"."""
    uri, collection, options = read_address(address)
    return Milvus(uri, collection, **options)
