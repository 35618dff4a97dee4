"""Qdrant: a collection on a server, or in a folder of this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput, EngineLost, Error, GalleryMismatch
from queryshift.support.optional import need

from .breadth import Breadth
from .engine import EngineGallery, Found
from .engine_vectors import checked_engine_vectors
from .hits import Id
from .qdrant_ids import can_be_an_id, check_new_ids
from .stored_vectors import LOOKED_AT, address_options, check_new, known_metric, plain_id

OPTIONS = {"vector": str, "ef": int, "exact": int, "secure": int}
FETCHED = 1_000  # points sent or fetched at once
OLDEST = (1, 11)  # which can draw a random sample
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
        self.breadth = None if self.exact else Breadth("ef", ef, LARGEST_EF)
        try:
            self._connection.check_version()
            size, distance = self._description()
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

    def _description(self) -> tuple[int, str]:
        """The length of the vectors, and their metric."""
        if not self._connection.call("collection_exists", self._collection):
            raise BadInput(
                f'no collection "{self._collection}" in this Qdrant: correct the address.'
            )
        about = self._connection.call("get_collection", self._collection).config.params.vectors
        named = about if isinstance(about, dict) else {"": about}
        if self._vector not in named:
            names = ", ".join(filter(None, named)) or "only one without a name"
            raise BadInput(
                f'collection "{self._collection}" has no vector "{self._vector}"; there is '
                f'{names}: name it as "vector".'
            )
        if getattr(named[self._vector], "multivector_config", None):
            raise GalleryMismatch(
                f'vector "{self._vector}" of collection "{self._collection}" is a multivector, '
                "expected one vector per point: name another."
            )
        return int(named[self._vector].size), str(named[self._vector].distance.value)

    def _array(self, points: Sequence[Any]) -> NDArray[np.float32]:
        rows = [point.vector[self._vector] if self._vector else point.vector for point in points]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.dimension)


class Connection:
    """A client of Qdrant that is made again when it was lost, and shows no key."""

    def __init__(self, location: str, key: str, timeout: float) -> None:
        self._package = need("qdrant_client", "qdrant", "a gallery in Qdrant")
        self._location, self._timeout = location, timeout
        self.remote = location.startswith(("http://", "https://"))
        self.place = location if self.remote else str(Path(location).resolve())
        self._key = key or os.environ.get("QDRANT_API_KEY", "")
        self._client: Any = None

    def call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """A method of the client; errors become the library's."""
        answered = self._package.http.exceptions
        try:
            return getattr(self._connected(), verb)(*arguments, **options)
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
        if not self.remote:
            return
        version = self.call("info").version
        if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
            raise BadInput(f"this is Qdrant {version}, expected 1.11 or later: upgrade the server.")

    def close(self) -> None:
        """End it; the next call connects again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> Any:
        if self._client is None and self.remote:
            self._client = self._package.QdrantClient(
                url=self._location,
                api_key=self._key or None,
                timeout=max(1, round(self._timeout)),
                check_compatibility=False,
            )
        elif self._client is None:
            self._client = self._package.QdrantClient(
                path=self._location, force_disable_check_same_thread=True
            )
        return self._client


def open(address: str) -> Qdrant:
    """The collection at "qdrant://host:6333/collection" or "qdrant:///folder/collection"."""
    location, collection, options = _split(address)
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
    models = need("qdrant_client.models", "qdrant", "a gallery in Qdrant")
    location, collection, options = _split(address)
    array, name = check_new(ids, vectors), options.get("vector", "")
    check_new_ids(ids)
    connection = Connection(location, options.get("key", ""), 60.0)
    one = models.VectorParams(size=array.shape[1], distance=models.Distance(distance))
    connection.call("create_collection", collection, vectors_config={name: one} if name else one)
    for start in range(0, len(array), FETCHED):
        part = zip(
            ids[start : start + FETCHED], array[start : start + FETCHED].tolist(), strict=True
        )
        points = [
            models.PointStruct(id=key, vector={name: row} if name else row) for key, row in part
        ]
        connection.call("upsert", collection, points=points, wait=True)
    connection.close()
    return open(address)


def _split(address: str) -> tuple[str, str, dict[str, Any]]:
    """What the client connects to, the collection, and the options of `Qdrant`."""
    try:
        parts = urlsplit(address)
        port = parts.port or 6333
    except ValueError:
        raise BadInput("the address cannot be read, expected qdrant://host:6333/name.") from None
    path, _, collection = unquote(parts.path).rpartition("/")
    if not collection or not (path or parts.hostname):
        raise BadInput(
            "the address names no collection, expected qdrant://host:6333/collection or "
            "qdrant:///folder/collection."
        )
    options = address_options(parts.query, OPTIONS)
    scheme = "https" if options.pop("secure", 0) else "http"
    if parts.password or parts.username:
        options["key"] = unquote(parts.password or parts.username or "")
    location = f"{scheme}://{parts.hostname}:{port}{path}" if parts.hostname else path
    return location, collection, options
