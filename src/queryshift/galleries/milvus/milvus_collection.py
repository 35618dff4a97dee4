"""A Milvus collection: what it is, and the parameters that search it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from queryshift.errors import BadInput

from ..model_origin import ModelOrigin
from ..search_effort import SearchEffort
from .milvus_connection import Connection

FLOATS = ("FLOAT_VECTOR", "FLOAT16_VECTOR", "BFLOAT16_VECTOR")
OLDEST = (2, 3)
LARGEST_EF, LARGEST_NPROBE = 32_768, 65_536


@dataclass(frozen=True)
class Collection:
    """What is known of a collection."""

    name: str
    key: str  # the field of the ids
    kind: type  # of the ids
    vector: str
    dimension: int
    metric: str
    index: str
    origin: ModelOrigin | None

    def breadth(self, ef: int, nprobe: int) -> SearchEffort | None:
        """What widens a search of this index; nothing does for FLAT and AUTOINDEX."""
        if "HNSW" in self.index or self.index == "DISKANN":
            return SearchEffort("ef", ef, LARGEST_EF)
        if self.index.startswith("IVF"):
            return SearchEffort("nprobe", nprobe, LARGEST_NPROBE)
        return None

    def search_params(self, limit: int, breadth: SearchEffort | None) -> dict[str, Any]:
        """How broadly to search, in the words of the index."""
        params: dict[str, int] = {}
        if breadth is not None and breadth.name == "ef":
            name = "search_list" if self.index == "DISKANN" else "ef"
            params = {name: max(breadth.value, limit)}
        elif breadth is not None:
            params = {"nprobe": breadth.value}
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
    """Refuse servers that were before search with vectors in one call; Lite has its own numbers."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST or len(numbers) < 2:
        raise BadInput(f'this is Milvus "{version}", expected 2.3 or later: upgrade the server.')


def _vector_field(name: str, fields: dict[str, Any], vector: str) -> str:
    found = [field for field, about in fields.items() if about["type"].name in FLOATS]
    if (vector and vector not in found) or (len(found) != 1 and not vector):
        raise BadInput(
            f'collection "{name}" has the float vector fields {", ".join(found) or "(none)"}, got '
            f'"{vector}": name one of them as "vector".'
        )
    return vector or found[0]
