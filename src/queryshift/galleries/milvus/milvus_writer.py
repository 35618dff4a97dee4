"""Candidates written into a collection of Milvus, each by its primary key."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import GalleryMismatch
from queryshift.support.optional import need

from ..engine_writer import Layout, check_fits
from ..hits import Id
from ..model_origin import ModelOrigin
from .milvus_collection import described
from .milvus_connection import Connection, split_address

WRITING = 60.0  # seconds that a call may take
SENT = 1_000  # rows at once
INDEXES = {"exact": "FLAT", "hnsw": "HNSW"}
GRAPH = {"M": 32, "efConstruction": 256}


class MilvusWriter:
    """Writes into the collection at an address; it is made where it is not there.

    Args:
        address: As `Gallery.open` takes it.
    """

    def __init__(self, address: str) -> None:
        self._kinds = need("pymilvus", "milvus", "a gallery in Milvus").DataType
        uri, self._name, options = split_address(address)
        token = options.get("token") or os.environ.get("MILVUS_TOKEN", "")
        self._connection = Connection(uri, token, WRITING)
        self._vector = options.get("vector", "")
        self._key = ""  # until the collection is made or looked up

    def prepare(self, layout: Layout) -> bool:
        """Make the collection with its index, or see that the one there fits."""
        there = bool(self._connection.call("has_collection", self._name))
        if there:
            self._check(layout)
        else:
            self._key, self._vector = "id", self._vector or "vector"
            self._create(layout)
        if layout.origin is not None:
            told = {ModelOrigin.KEY: layout.origin.as_text()}
            self._connection.call("alter_collection_properties", self._name, properties=told)
        return there

    def upsert(self, ids: Sequence[Id], vectors: NDArray[np.float32]) -> None:
        """Insert rows, or replace those of the same key, and wait until they are stored."""
        self._find_fields()
        for start in range(0, len(vectors), SENT):
            part = zip(ids[start : start + SENT], vectors[start : start + SENT], strict=True)
            rows = [{self._key: one, self._vector: row} for one, row in part]
            self._connection.call("upsert", self._name, data=rows)

    def count(self) -> int:
        """The number of candidates, the latest ones too."""
        fields, told = ["count(*)"], {"consistency_level": "Strong"}
        rows = self._connection.call("query", self._name, output_fields=fields, **told)
        return int(rows[0]["count(*)"])

    def finish(self, layout: Layout) -> None:
        """Have everything on disk; the index is made as rows come."""
        self._connection.call("flush", self._name)

    def close(self) -> None:
        """Give the connection back; the next call makes it again."""
        self._connection.close()

    def _create(self, layout: Layout) -> None:
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

    def _check(self, layout: Layout) -> None:
        collection = described(self._connection, self._name, self._vector)
        check_fits(self._name, collection.dimension, collection.origin, layout)
        if (collection.kind is int) != layout.whole_ids:
            raise GalleryMismatch(
                f'collection "{self._name}" has keys of the type {collection.kind.__name__}, got '
                "others: take another collection, or other ids."
            )

    def _find_fields(self) -> None:
        """The names of the fields, where this writer has not made the collection."""
        if not self._key:
            collection = described(self._connection, self._name, self._vector)
            self._vector, self._key = collection.vector, collection.key
