"""A connection to Milvus, and the description of a collection there."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from queryshift.errors import BadInput, EngineLost
from queryshift.support.optional import need

from ..addresses import split_address
from ..model_origin import ModelOrigin
from ..searchable import SearchEffort

OPTIONS = {"vector": str, "consistency": str, "ef": int, "nprobe": int, "secure": int}
EXAMPLE = "milvus://host:19530/collection or milvus:///path/file.db/collection"
REFUSALS = ("auth", "permission", "collection not found", "can't find collection", "invalid")
FLOATS = ("FLOAT_VECTOR", "FLOAT16_VECTOR", "BFLOAT16_VECTOR")
OLDEST = (2, 3)
LARGEST_EF, LARGEST_NPROBE = 32_768, 65_536


class Connection:
    """A pymilvus client for any number of threads; it reconnects, and never prints the token.

    Args:
        uri: A server's address, or the path of a file.
        token: "user:password" or an API key; MILVUS_TOKEN if none is given.
        timeout: Seconds that a call may take.
    """

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
            method = getattr(self._connected(), verb)
            if verb in ("create_schema", "prepare_index_params"):  # which ask no server
                return method()
            return method(*arguments, timeout=self._timeout, **options)
        except self._pymilvus.MilvusException as error:
            text = self._text(error)
        except self._grpc.RpcError as error:  # which pymilvus lets through where a file is open
            text = self._text(error)
            if error.code() == self._grpc.StatusCode.DEADLINE_EXCEEDED:
                self.close()
                raise EngineLost(
                    f"Milvus needed more than the {self._timeout:g} seconds that a call may take: "
                    "ask fewer queries at once, or give the gallery a longer timeout."
                ) from None
        except (OSError, ValueError, RuntimeError) as error:  # what gRPC says of a closed channel
            text = self._text(error)
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
        """Return the first line of an error, without the token or a part of it."""
        told = getattr(error, "message", "") or getattr(error, "details", lambda: "")() or error
        line = str(told).strip().partition("\n")[0]
        for secret in filter(None, (self._token, self._token.partition(":")[2])):
            line = line.replace(secret, "***")
        return line.rstrip(".")


@dataclass(frozen=True)
class Collection:
    """The description of a collection."""

    name: str
    key: str  # the field of the ids
    kind: type  # of the ids
    vector: str
    dimension: int
    metric: str
    index: str
    origin: ModelOrigin | None

    def search_effort(self, ef: int, nprobe: int) -> SearchEffort | None:
        """Return the search effort of this index; FLAT and AUTOINDEX have none."""
        if "HNSW" in self.index or self.index == "DISKANN":
            return SearchEffort("ef", ef, LARGEST_EF)
        if self.index.startswith("IVF"):
            return SearchEffort("nprobe", nprobe, LARGEST_NPROBE)
        return None

    def search_params(self, limit: int, effort: SearchEffort | None) -> dict[str, Any]:
        """Return the search effort in the words of the index."""
        params: dict[str, int] = {}
        if effort is not None and effort.name == "ef":
            name = "search_list" if self.index == "DISKANN" else "ef"
            params = {name: max(effort.value, limit)}
        elif effort is not None:
            params = {"nprobe": effort.value}
        return {"metric_type": self.metric, "params": params}


def described(connection: Connection, name: str, vector: str) -> Collection:
    """Look a collection up and load it, or refuse it with what to do."""
    check_version(connection.call("get_server_version"))
    if not connection.call("has_collection", name):
        raise BadInput(f'no collection "{name}" in this Milvus: correct the address.')
    about = connection.call("describe_collection", name)
    fields = {field["name"]: field for field in about["fields"]}
    key = next(field for field in fields.values() if field.get("is_primary"))
    chosen = _vector_field(name, fields, vector)
    index = connection.call("describe_index", name, chosen) or {}
    if "metric_type" not in index:
        raise BadInput(
            f'field "{chosen}" of collection "{name}" has no index, without which Milvus does not '
            "search: create one with the metric COSINE."
        )
    connection.call("load_collection", name)
    return Collection(
        name=name,
        key=key["name"],
        kind=int if key["type"].name.startswith("INT") else str,
        vector=chosen,
        dimension=int(fields[chosen]["params"]["dim"]),
        metric=index["metric_type"],
        index=index.get("index_type", ""),
        origin=ModelOrigin.from_text((about.get("properties") or {}).get(ModelOrigin.KEY)),
    )


def check_version(version: str) -> None:
    """Refuse servers too old to search with vectors in one call; Lite has its own numbers."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST or len(numbers) < 2:
        raise BadInput(f'this is Milvus "{version}", expected 2.3 or later: upgrade the server.')


def read_address(address: str) -> tuple[str, str, dict[str, Any]]:
    """Return what pymilvus connects to, the collection, and the options of `Milvus`."""
    parts = split_address(address, 19530, OPTIONS, EXAMPLE)
    if not re.fullmatch(r"\w+", parts.collection):
        raise BadInput(
            f'got the collection "{parts.collection}" in the address, expected {EXAMPLE}.'
        )
    token = ":".join(filter(None, (parts.user, parts.password))) if parts.user else ""
    return parts.url, parts.collection, parts.options | ({"token": token} if token else {})


def _vector_field(name: str, fields: dict[str, Any], vector: str) -> str:
    found = [field for field, about in fields.items() if about["type"].name in FLOATS]
    if (vector and vector not in found) or (len(found) != 1 and not vector):
        raise BadInput(
            f'collection "{name}" has the float vector fields {", ".join(found) or "(none)"}, got '
            f'"{vector}": name one of them as "vector".'
        )
    return vector or found[0]
