"""Qdrant: a collection on a server or in a folder, or a shard of Qdrant Edge in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadFile, BadInput, EngineLost, GalleryMismatch
from queryshift.support.optional import need

from .addresses import address_options, split_address
from .candidate_checks import plain_id
from .engine import EngineGallery, check_version
from .engine_writer import Described, Layout, Writer
from .hits import Id
from .model_origin import ModelOrigin
from .searchable import SearchEffort
from .seen_candidates import Found

OPTIONS = {"vector": str, "ef": int, "exact": int, "secure": int}
EDGE_OPTIONS = {"vector": str, "ef": int, "exact": int}
EXAMPLE = "qdrant://host:6333/collection or qdrant:///folder/collection"
LARGEST_EF = 16_384
WRITING = 60.0  # seconds that a call may take while writing
SENT = 1_000  # points written at once


class PointsGallery(EngineGallery):
    """What Qdrant's server and Qdrant Edge share: points with ids, some with named vectors."""

    _vector: str

    def find(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """Return the best `count` points of each query with their vectors, in one call."""
        if self.search_effort is None:
            return self.find_exact(queries, count)
        return self._search(queries, count, hnsw_ef=max(self.search_effort.value, count))

    def find_exact(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """Return the best `count` points of each query without the index."""
        return self._search(queries, count, exact=True)

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Return the ids that are in the collection."""
        found = self._points([one for one in ids if can_be_an_id(one)])
        return {plain_id(point.id) for point in found}.intersection(ids)

    def _search(self, queries: NDArray[np.float32], count: int, **how: Any) -> list[Found]:
        raise NotImplementedError

    def _points(self, ids: Sequence[Id]) -> Any:
        raise NotImplementedError

    def _found(self, points: Sequence[Any]) -> Found:
        return Found([plain_id(point.id) for point in points], self._vectors(points))

    def _vectors(self, points: Sequence[Any]) -> NDArray[np.float32]:
        name = self._vector
        return self._array([point.vector[name] if name else point.vector for point in points])


class Qdrant(PointsGallery):
    """Candidates in a Qdrant collection, used as it is; its points' ids are the ids.

    Args:
        location: "http://host:6333" or "https://…", or a folder of this machine.
        collection: The collection's name.
        vector: The name of the vector if points have named ones.
        key: An API key, by default QDRANT_API_KEY. Never printed.
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
        self._name = f'collection="{collection}", vector="{vector}"'
        self.exact = exact or not self._connection.remote  # a folder has no index
        self.search_effort = None if self.exact else SearchEffort("ef", ef, LARGEST_EF)
        with self._closed_on_error():
            self._connection.check_version()
            described = describe(self._connection, collection, vector)
            super().__init__(described.dimension, timeout=timeout)
            self.origin = described.origin
            self._check_stored(collection, described.metric)

    def _search(self, queries: NDArray[np.float32], count: int, **how: Any) -> list[Found]:
        asked = {"limit": count, "params": self._models.SearchParams(**how), "with_vector": True}
        asked["using"] = self._vector or None
        requests = [self._models.QueryRequest(query=query.tolist(), **asked) for query in queries]
        answers = self._call("query_batch_points", requests=requests)
        return [self._found(answer.points) for answer in answers]

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """Draw `count` vectors, all in their order if there are fewer; Qdrant takes no seed."""
        if self.count() <= count:
            return self._vectors(self._call("scroll", limit=max(count, 1), with_vectors=True)[0])
        query = self._models.SampleQuery(sample=self._models.Sample.RANDOM)
        drawn: dict[str, Any] = {"query": query, "limit": count, "with_vectors": True}
        found = self._call("query_points", using=self._vector or None, **drawn)
        return self._vectors(found.points)

    def count(self) -> int:
        """The number of points."""
        return int(self._call("count", exact=True).count)

    @property
    def place(self) -> str:
        """Server or folder, collection and vector."""
        return f"{self._connection.place}/{self._collection}?vector={self._vector}"

    def _points(self, ids: Sequence[Id]) -> Any:
        return self._call("retrieve", ids=ids, with_payload=False, with_vectors=False)

    def _call(self, verb: str, **options: Any) -> Any:
        return self._connection.call(verb, self._collection, **options)


class QdrantEdge(PointsGallery):
    """Candidates in a shard of Qdrant Edge; its points' ids are the ids.

    One process has a shard open at a time: close it before another opens it.

    Args:
        folder: The shard's folder.
        vector: The name of the vector if points have named ones.
        ef: Breadth of an HNSW search; at least 256 for shifted queries.
        exact: Search without the index; a shard that was not optimised has none.

    Examples:
        >>> QdrantEdge("captions.shard")  # doctest: +SKIP
        QdrantEdge("captions.shard")
    """

    def __init__(
        self, folder: str | Path, *, vector: str = "", ef: int = 256, exact: bool = False
    ) -> None:
        self._edge = need("qdrant_edge", "qdrant-edge", "a shard of Qdrant Edge")
        self._folder, self._vector, self._name = Path(folder), vector, f'"{folder}"'
        described = self._described()
        super().__init__(int(described["size"]))
        self._connection = self._shard = self._load()
        with self._closed_on_error():
            self.exact = bool(exact) or self._shard.info().indexed_vectors_count == 0
            self.search_effort = None if self.exact else SearchEffort("ef", ef, LARGEST_EF)
            self._check_stored(str(folder), str(described["distance"]))

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """Draw `count` vectors, all in their order if there are fewer; Qdrant takes no seed."""
        if self.count() <= count:
            request = self._edge.ScrollRequest(limit=max(count, 1), with_vector=True)
            return self._vectors(self._shard.scroll(request)[0])
        random = self._edge.Sample.Random
        request = self._edge.QueryRequest(limit=count, query=random, with_vector=True)
        return self._vectors(self._shard.query(request))

    def count(self) -> int:
        """The number of points."""
        return int(self._shard.count(self._edge.CountRequest()))

    @property
    def place(self) -> str:
        """The shard's folder and the vector."""
        return f"{self._folder.resolve()}?vector={self._vector}"

    @property
    def version(self) -> str:
        """The number of points, and the number of the last change."""
        segments = self._shard.snapshot_manifest().values()
        return f"{self.count()} at {max(one['segment_version'] or 0 for one in segments)}"

    def _search(self, queries: NDArray[np.float32], count: int, **how: Any) -> list[Found]:
        nearest, vector = self._edge.Query.Nearest, self._vector or None
        asked = {"limit": count, "params": self._edge.SearchParams(**how), "with_vector": True}
        rows = (nearest(query.tolist(), vector) for query in queries)
        requests = [self._edge.QueryRequest(query=row, **asked) for row in rows]
        answers = self._shard.query_batch(self._edge.QueryBatchRequest(requests))
        return [self._found(points) for points in answers]

    def _points(self, ids: Sequence[Id]) -> Any:
        return self._shard.retrieve(ids, False, False)

    def _described(self) -> Mapping[str, Any]:
        """Return the vectors' entry in the shard's configuration."""
        try:
            named = json.loads((self._folder / "edge_config.json").read_text())["vectors"]
        except (OSError, ValueError, KeyError, TypeError):
            raise BadFile(
                f'no shard of Qdrant Edge in "{self._folder}": create it, or correct the address.'
            ) from None
        described: Mapping[str, Any] = _named("the shard", named, self._vector)
        return described

    def _load(self) -> Any:
        try:
            return self._edge.EdgeShard.load(str(self._folder))
        except Exception as error:  # the package raises no narrower class
            raise BadFile(
                f'the shard in "{self._folder}" cannot be opened ({error}): close it where it is '
                "open, in this process or another."
            ) from None


class QdrantWriter(Writer):
    """Writes into the collection at an address, each point by its id.

    Args:
        address: As `Gallery.open` takes it.
    """

    def __init__(self, address: str) -> None:
        self._models = need("qdrant_client.models", "qdrant", "a gallery in Qdrant")
        location, name, options = read_address(address)
        super().__init__(name, Connection(location, options.get("key", ""), WRITING))
        self._vector = options.get("vector", "")

    def exists(self) -> bool:
        """Return whether the collection exists."""
        return bool(self._connection.call("collection_exists", self._name))

    def make(self, layout: Layout) -> None:
        """Create the collection; Qdrant makes its index by itself."""
        distance = self._models.Distance(layout.metric or "Cosine")
        one = self._models.VectorParams(size=layout.dimension, distance=distance)
        vectors = {self._vector: one} if self._vector else one
        self._connection.call("create_collection", self._name, vectors_config=vectors)

    def described(self) -> Described:
        """Describe the existing collection."""
        return describe(self._connection, self._name, self._vector)

    def keep_origin(self, origin: ModelOrigin) -> None:
        """Store the model in the collection's metadata."""
        told = {ModelOrigin.KEY: origin.as_text()}
        self._connection.call("update_collection", self._name, metadata=told)

    def upsert(self, ids: Sequence[Id], vectors: NDArray[np.float32]) -> None:
        """Insert points, or replace those of the same id, and wait until they are stored."""
        if foreign := [one for one in ids if not can_be_an_id(one)]:
            raise BadInput(
                f"got the id {foreign[0]!r}, expected whole numbers from 0 on or UUIDs, the only "
                "ids that Qdrant has: keep yours in the payload."
            )
        rows: list[Any] = [{self._vector: row} if self._vector else row for row in vectors.tolist()]
        points = [
            self._models.PointStruct(id=key, vector=row) for key, row in zip(ids, rows, strict=True)
        ]
        for start in range(0, len(points), SENT):
            part = points[start : start + SENT]
            self._connection.call("upsert", self._name, points=part, wait=True)

    def count(self) -> int:
        """Return the number of points."""
        return int(self._connection.call("count", self._name, exact=True).count)


class Connection:
    """A Qdrant client; it reconnects, and never prints the key."""

    def __init__(self, location: str, key: str, timeout: float) -> None:
        self._package = need("qdrant_client", "qdrant", "a gallery in Qdrant")
        self.remote = location.startswith(("http://", "https://"))
        self.place = location if self.remote else str(Path(location).resolve())
        self._how: dict[str, Any] = {"path": location, "force_disable_check_same_thread": True}
        if self.remote:
            key = key or os.environ.get("QDRANT_API_KEY", "")
            self._how = {"url": location, "api_key": key or None, "check_compatibility": False}
            self._how["timeout"] = max(1, round(timeout))
        self._client: Any = None

    def call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the client; raise the library's errors."""
        answered = self._package.http.exceptions
        try:
            if self._client is None:
                self._client = self._package.QdrantClient(**self._how)
            return getattr(self._client, verb)(*arguments, **options)
        except answered.UnexpectedResponse as error:
            text = f"{error.status_code} {error.reason_phrase}"
            if error.status_code is not None and 400 <= error.status_code < 500:
                raise BadInput(
                    f"Qdrant refused ({text}): correct the address, the collection, or the key "
                    "in QDRANT_API_KEY."
                ) from None
        except (answered.ApiException, OSError) as error:
            text = type(error).__name__
        self.close()
        raise EngineLost(f"Qdrant does not answer ({text}): is the server running?")

    def check_version(self) -> None:
        """Refuse servers that cannot draw a random sample; a folder has no version."""
        if self.remote:
            check_version("Qdrant", self.call("info").version, (1, 11), "upgrade the server")

    def close(self) -> None:
        """Close it; the next call connects again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


def describe(connection: Connection, collection: str, vector: str) -> Described:
    """Look up a collection; raise an error that says what to do."""
    if not connection.call("collection_exists", collection):
        raise BadInput(f'no collection "{collection}" in this Qdrant: correct the address.')
    about = connection.call("get_collection", collection).config
    vectors = about.params.vectors
    named = vectors if isinstance(vectors, dict) else {"": vectors}
    chosen = _named(f'collection "{collection}"', named, vector)
    if getattr(chosen, "multivector_config", None):
        raise GalleryMismatch(
            f'vector "{vector}" of collection "{collection}" is a multivector, expected one vector '
            "per point: name another."
        )
    origin = ModelOrigin.from_text((getattr(about, "metadata", None) or {}).get(ModelOrigin.KEY))
    return Described(dimension=chosen.size, metric=chosen.distance.value, origin=origin)


def _named(what: str, vectors: Mapping[str, Any], name: str) -> Any:
    """Return the description of the vector with this name, or raise an error."""
    if name not in vectors:
        names = ", ".join(filter(None, vectors)) or "only one without a name"
        raise BadInput(f'{what} has no vector "{name}"; there is {names}: name it as "vector".')
    return vectors[name]


def can_be_an_id(one: Id) -> bool:
    """Return whether Qdrant can have this id: a whole number from 0 on, or a UUID.

    Examples:
        >>> from queryshift.galleries.qdrant import can_be_an_id
        >>> can_be_an_id(7), can_be_an_id(-7), can_be_an_id("seven")
        (True, False, False)
    """
    if isinstance(one, int):
        return 0 <= one < 2**64
    try:
        return str(UUID(one)) == one
    except ValueError:
        return False


def read_address(address: str) -> tuple[str, str, dict[str, Any]]:
    """Return what the client connects to, the collection, and the options of `Qdrant`."""
    parts = split_address(address, 6333, OPTIONS, EXAMPLE)
    key = parts.password or parts.user
    return parts.url, parts.collection, parts.options | ({"key": key} if key else {})


def open(address: str) -> Qdrant:
    """Open the collection at "qdrant://host:6333/name" or "qdrant:///folder/name"."""
    location, collection, options = read_address(address)
    return Qdrant(location, collection, **options)


def open_edge(address: str) -> QdrantEdge:
    """Open the shard at "qdrant-edge:FOLDER", or "qdrant-edge:FOLDER?ef=512&vector=image"."""
    folder, _, query = address.removeprefix("qdrant-edge:").partition("?")
    return QdrantEdge(folder, **address_options(query, EDGE_OPTIONS))
