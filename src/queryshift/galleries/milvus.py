"""Milvus: a collection on a server or a cluster, or in a file of Milvus Lite."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput, EngineLost
from queryshift.support.optional import need

from .addresses import split_address
from .candidate_checks import LOOKED_AT
from .engine import EngineGallery, check_version
from .engine_writer import Described, Layout, Writer
from .hits import Id
from .model_origin import ModelOrigin
from .searchable import SearchEffort
from .seen_candidates import Found, best_of_pieces

OPTIONS = {"vector": str, "consistency": str, "ef": int, "nprobe": int, "secure": int}
EXAMPLE = "milvus://host:19530/collection or milvus:///path/file.db/collection"
REFUSALS = ("auth", "permission", "collection not found", "can't find collection", "invalid")
FLOATS = ("FLOAT_VECTOR", "FLOAT16_VECTOR", "BFLOAT16_VECTOR")
LARGEST = 16_384  # rows that Milvus gives per query or page
LARGEST_EF, LARGEST_NPROBE = 32_768, 65_536
FETCHED = 1_000  # vectors of a sample fetched at once
WRITING = 60.0  # seconds that a call may take while writing
SENT = 1_000  # rows written at once
INDEXES = {"exact": "FLAT", "hnsw": "HNSW"}
GRAPH = {"M": 32, "efConstruction": 256}


class Milvus(EngineGallery):
    """Candidates in a Milvus collection, used as it is; its primary keys are the ids.

    Args:
        uri: "http://host:19530" or "https://…", or the path of a Milvus Lite file.
        collection: The collection's name; it is loaded if it is not loaded yet.
        vector: The vector field; not needed if there is only one.
        token: "user:password" or an API key, by default MILVUS_TOKEN. Never printed.
        consistency: "Bounded" may miss the latest inserts; "Strong" waits for them, and was 36
            times slower in the same call.
        ef: Breadth of an HNSW search; at least 256 for shifted queries.
        nprobe: Lists that an IVF search visits.
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
        with self._closed_on_error():
            self._collection = described = describe(self._connection, collection, vector)
            super().__init__(described.dimension, timeout=timeout)
            self._name = f'collection="{collection}", vector="{described.vector}"'
            self.origin, self.exact = described.origin, described.index == "FLAT"
            if "HNSW" in described.index or described.index == "DISKANN":
                self.search_effort = SearchEffort("ef", ef, LARGEST_EF)
            elif described.index.startswith("IVF"):
                self.search_effort = SearchEffort("nprobe", nprobe, LARGEST_NPROBE)
            self._check_stored(collection, described.metric, self._first_vectors())

    def find(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """Find the best `count` candidates of each query with their vectors, in one call."""
        limit, key, field = min(count, LARGEST), self._collection.key, self._collection.vector
        params = {"metric_type": self._collection.metric, "params": self._search_params(limit)}
        wanted = {"data": list(queries), "limit": limit, "output_fields": [field]}
        answers = self._call("search", anns_field=field, search_params=params, **wanted)
        return [
            Found([hit[key] for hit in hits], self._array([hit["entity"][field] for hit in hits]))
            for hits in answers
        ]

    def find_exact(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """Find the exact best of each query; all vectors are read, page by page."""
        key, field = self._collection.key, self._collection.vector
        pages = (
            ([row[key] for row in rows], self._array([row[field] for row in rows]))
            for rows in self._pages([key, field], FETCHED)
        )
        return best_of_pieces(queries, pages, count)

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """Draw `count` vectors by their primary keys, in the order of the keys.

        All keys are read page by page, and only the drawn ones are kept: a scan gives the first
        rows, an offset ends at 16,384 rows, and Milvus' own samples (from 2.6 on, on servers only)
        take no seed.
        """
        total = self.count()
        drawn = np.random.default_rng(seed).choice(total, min(count, total), replace=False)
        wanted = self._keys_at(np.sort(drawn))
        parts = (wanted[start : start + FETCHED] for start in range(0, len(wanted), FETCHED))
        return self._array([row for part in parts for row in self._vectors_of(part)])

    def count(self) -> int:
        """Return the number of candidates."""
        return int(self._call("query", output_fields=["count(*)"])[0]["count(*)"])

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Return the ids that are in the collection."""
        asked = self._collection.of_kind(ids)
        if not asked:
            return set()
        key = self._collection.key
        rows = self._call("query", filter=self._among(asked), output_fields=[key])
        return {row[key] for row in rows}

    @property
    def version(self) -> str:
        """The number of candidates, and the number of rows written.

        A server counts an updated row twice, after the flush until compaction.
        """
        written = self._connection.call("get_collection_stats", self._collection.name)["row_count"]
        return f"{self.count()} in {written} rows"

    @property
    def place(self) -> str:
        """Server or file, collection and field."""
        return f"{self._connection.place}/{self._collection.name}?vector={self._collection.vector}"

    def _search_params(self, limit: int) -> dict[str, int]:
        """The search effort in the words of the index."""
        effort = self.search_effort
        if effort is None:
            return {}
        if effort.name == "nprobe":
            return {"nprobe": effort.value}
        name = "search_list" if self._collection.index == "DISKANN" else "ef"
        return {name: max(effort.value, limit)}

    def _call(self, verb: str, **asked: Any) -> Any:
        """Call a method on the collection; load it again if the server was restarted."""
        name = self._collection.name
        try:
            return self._connection.call(verb, name, consistency_level=self._consistency, **asked)
        except EngineLost as error:
            if "not loaded" in str(error):
                self._connection.call("load_collection", name)
            raise

    def _pages(self, fields: list[str], size: int) -> Iterator[list[dict[str, Any]]]:
        """Yield all rows by their keys; pymilvus' own iterator fails at quotes in keys."""
        key, after = self._collection.key, ""
        while rows := self._call("query", filter=after, limit=size, output_fields=fields):
            yield rows
            last = max(row[key] for row in rows)
            after = f"{key} > {json.dumps(last, ensure_ascii=False)}"

    def _keys_at(self, places: NDArray[np.int64]) -> list[Id]:
        """Return the primary keys at these sorted places in the sorted list of all keys."""
        key, first, keys = self._collection.key, 0, list[Id]()
        for page in self._pages([key], LARGEST):
            inside = places[(places >= first) & (places < first + len(page))] - first
            keys += [page[place][key] for place in inside]
            first += len(page)
        return keys

    def _first_vectors(self) -> NDArray[np.float32]:
        field = self._collection.vector
        rows = self._call("query", limit=LOOKED_AT, output_fields=[field])
        if not rows:
            raise BadInput(
                f'collection "{self._collection.name}" is empty: fill it before a session uses it.'
            )
        return self._array([row[field] for row in rows])

    def _vectors_of(self, keys: list[Id]) -> list[Any]:
        """Return the vectors of these candidates, without those deleted since."""
        key, field = self._collection.key, self._collection.vector
        rows = self._call("query", filter=self._among(keys), output_fields=[key, field])
        stored = {row[key]: row[field] for row in rows}
        return [stored[one] for one in keys if one in stored]

    def _among(self, keys: Sequence[Id]) -> str:
        """Return a filter for these keys, with quotes escaped as in JSON."""
        return f"{self._collection.key} in {json.dumps(list(keys), ensure_ascii=False)}"


class MilvusWriter(Writer):
    """Writes into the collection at an address, each row by its primary key.

    Args:
        address: As `Gallery.open` takes it.
    """

    def __init__(self, address: str) -> None:
        self._pymilvus = need("pymilvus", "milvus", "a gallery in Milvus")
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
        client, kinds = self._pymilvus.MilvusClient, self._pymilvus.DataType
        schema, indexes = client.create_schema(), client.prepare_index_params()
        if layout.whole_ids:
            schema.add_field(self._key, kinds.INT64, is_primary=True)
        else:
            schema.add_field(self._key, kinds.VARCHAR, is_primary=True, max_length=65_535)
        schema.add_field(self._vector, kinds.FLOAT_VECTOR, dim=layout.dimension)
        index = INDEXES.get(layout.index, layout.index)
        more: dict[str, Any] = {"params": GRAPH} if index == "HNSW" else {}
        metric = layout.metric or "COSINE"
        indexes.add_index(self._vector, index_type=index, metric_type=metric, **more)
        self._connection.call("create_collection", self._name, schema=schema, index_params=indexes)

    def described(self) -> Collection:
        """Describe the existing collection."""
        return describe(self._connection, self._name, self._vector)

    def keep_origin(self, origin: ModelOrigin) -> None:
        """Store the model as a property of the collection."""
        told = {ModelOrigin.KEY: origin.as_text()}
        self._connection.call("alter_collection_properties", self._name, properties=told)

    def upsert(self, ids: Sequence[Id], vectors: NDArray[np.float32]) -> None:
        """Insert rows, or replace those of the same key, and wait until they are stored."""
        if not self._key:  # another process has created the collection
            collection = self.described()
            self._vector, self._key = collection.vector, collection.key
        for start in range(0, len(vectors), SENT):
            part = zip(ids[start : start + SENT], vectors[start : start + SENT], strict=True)
            rows = [{self._key: one, self._vector: row} for one, row in part]
            self._connection.call("upsert", self._name, data=rows)

    def count(self) -> int:
        """Return the number of candidates, the latest ones too."""
        asked: dict[str, Any] = {"output_fields": ["count(*)"], "consistency_level": "Strong"}
        return int(self._connection.call("query", self._name, **asked)[0]["count(*)"])

    def finish(self, layout: Layout) -> None:
        """Flush everything to disk; Milvus indexes rows as they come."""
        self._connection.call("flush", self._name)


class Connection:
    """A pymilvus client for any number of threads; it reconnects, and never prints the token."""

    def __init__(self, uri: str, token: str, timeout: float) -> None:
        self._pymilvus = need("pymilvus", "milvus", "a gallery in Milvus")
        self._grpc = import_module("grpc")
        self._uri, self._timeout = uri, timeout
        self._token = token or os.environ.get("MILVUS_TOKEN", "")
        self.place = uri if "://" in uri else str(Path(uri).resolve())
        self._lock = Lock()
        self._client: Any = None

    def call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the client; the next call reconnects if the connection was lost."""
        try:
            return getattr(self._connected(), verb)(*arguments, timeout=self._timeout, **options)
        except self._grpc.RpcError as error:  # pymilvus does not catch it for files
            text = self._text(error)
            if error.code() == self._grpc.StatusCode.DEADLINE_EXCEEDED:
                self.close()
                raise EngineLost(
                    f"Milvus needed more than the {self._timeout:g} seconds that a call may take: "
                    "ask fewer queries at once, or give the gallery a longer timeout."
                ) from None
        except (self._pymilvus.MilvusException, OSError, ValueError, RuntimeError) as error:
            text = self._text(error)  # the last two: gRPC, when a channel is closed
        if any(word in text.lower() for word in REFUSALS):
            raise BadInput(
                f"Milvus refused ({text}): correct the address, the collection, or the user and "
                "password in it or in MILVUS_TOKEN."
            )
        self.close()
        doubt = ", and are the user and password right" if self._token else ""  # it does not say
        raise EngineLost(f"Milvus does not answer ({text}): is the server running{doubt}?")

    def close(self) -> None:
        """Close it; the next call connects again."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._pymilvus.MilvusClient(
                    self._uri, token=self._token, timeout=self._timeout
                )
            return self._client

    def _text(self, error: Exception) -> str:
        """Return the first line of an error, without the token and the password."""
        told = getattr(error, "message", "") or getattr(error, "details", lambda: "")() or error
        line = str(told).strip().partition("\n")[0]
        for secret in filter(None, (self._token, self._token.partition(":")[2])):
            line = line.replace(secret, "***")
        return line.rstrip(".")


@dataclass(frozen=True, kw_only=True)
class Collection(Described):
    """The description of a collection."""

    name: str
    key: str  # the field of the ids
    vector: str
    index: str


def describe(connection: Connection, name: str, vector: str) -> Collection:
    """Look up a collection and load it; raise an error that says what to do."""
    check_version("Milvus", connection.call("get_server_version"), (2, 3), "upgrade the server")
    if not connection.call("has_collection", name):
        raise BadInput(f'no collection "{name}" in this Milvus: correct the address.')
    about = connection.call("describe_collection", name)
    fields = {field["name"]: field for field in about["fields"]}
    key = next(field for field in fields.values() if field.get("is_primary"))
    floats = [field for field, told in fields.items() if told["type"].name in FLOATS]
    if (vector and vector not in floats) or (len(floats) != 1 and not vector):
        raise BadInput(
            f'collection "{name}" has the float vector fields {", ".join(floats) or "(none)"}, got '
            f'"{vector}": name one of them as "vector".'
        )
    vector = vector or floats[0]
    index = connection.call("describe_index", name, vector) or {}
    if "metric_type" not in index:
        raise BadInput(
            f'field "{vector}" of collection "{name}" has no index, without which Milvus does not '
            "search: create one with the metric COSINE."
        )
    connection.call("load_collection", name)
    return Collection(
        name=name,
        key=key["name"],
        whole_ids=key["type"].name.startswith("INT"),
        vector=vector,
        dimension=int(fields[vector]["params"]["dim"]),
        metric=index["metric_type"],
        index=index.get("index_type", ""),
        origin=ModelOrigin.from_text((about.get("properties") or {}).get(ModelOrigin.KEY)),
    )


def read_address(address: str) -> tuple[str, str, dict[str, Any]]:
    """Return what pymilvus connects to, the collection, and the options of `Milvus`."""
    parts = split_address(address, 19530, OPTIONS, EXAMPLE)
    if not re.fullmatch(r"\w+", parts.collection):
        raise BadInput(
            f'got the collection "{parts.collection}" in the address, expected {EXAMPLE}.'
        )
    token = ":".join(filter(None, (parts.user, parts.password))) if parts.user else ""
    return parts.url, parts.collection, parts.options | ({"token": token} if token else {})


def open(address: str) -> Milvus:
    """Open the collection at "milvus://host:19530/name" or "milvus:///path/file.db/name"."""
    uri, collection, options = read_address(address)
    return Milvus(uri, collection, **options)
