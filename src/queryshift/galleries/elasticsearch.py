"""Elasticsearch and OpenSearch over plain HTTP, written after their reference documentation."""

from __future__ import annotations

import base64
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput, EngineLost, GalleryMismatch

from .addresses import split_address
from .engine import EngineGallery
from .hits import Id
from .searchable import SearchEffort
from .seen_candidates import Found

Dialect = Literal["elasticsearch", "opensearch"]
MOST = 10_000  # hits of one search, unless the index allows more
TYPES = {"elasticsearch": "dense_vector", "opensearch": "knn_vector"}
METRICS = {
    **{"cosine": "cosine", "dot_product": "dot", "l2_norm": "l2"},
    **{"cosinesimil": "cosine", "innerproduct": "dot", "l2": "l2"},
}
OPTIONS = {"field": str, "ef": int, "secure": int}
EXAMPLE = "elasticsearch://host:9200/index?field=embedding"


class Elasticsearch(EngineGallery):
    """Candidates in an index, used as it is; its documents' `_id` are the ids.

    **Untested against a real server**: try it with `queryshift gallery check` first.

    Args:
        url: "http://host:9200" or "https://…".
        index: The index, or an alias of one.
        field: The vector field: a dense_vector of Elasticsearch, a knn_vector of OpenSearch.
        dialect: "elasticsearch" or "opensearch".
        user: A user name, never printed.
        password: Its password, or without a user an API key, by default
            ELASTICSEARCH_API_KEY (OPENSEARCH_API_KEY).
        ef: Breadth of an HNSW search: num_candidates, ef_search.
        timeout: Seconds that a call may take.

    Examples:
        >>> Elasticsearch("http://localhost:9200", "items", "embedding")  # doctest: +SKIP
        Elasticsearch(index="items", field="embedding")
    """

    def __init__(
        self,
        url: str,
        index: str,
        field: str,
        *,
        dialect: Dialect = "elasticsearch",
        user: str = "",
        password: str = "",
        ef: int = 256,
        timeout: float = 10.0,
    ) -> None:
        self._url, self._index, self._field, self._dialect = url, index, field, dialect
        self._name = f'index="{index}", field="{field}"'
        key = password or os.environ.get(f"{dialect.upper()}_API_KEY", "")
        basic = base64.b64encode(f"{user}:{key}".encode()).decode()
        told = f"Basic {basic}" if user else f"ApiKey {key}"
        self._headers = {"Content-Type": "application/json"}
        self._headers |= {"Authorization": told} if key else {}
        self.timeout = timeout
        self.search_effort: SearchEffort = SearchEffort("ef", ef, MOST)
        about = self._about()
        super().__init__(about.get("dims", about.get("dimension", 0)), timeout=timeout)
        said = about.get("similarity") or about.get("space_type")
        said = said or (about.get("method") or {}).get("space_type")
        said = said or ("cosine" if dialect == "elasticsearch" else "l2")  # their defaults
        self._check_stored(index, METRICS.get(said, said))

    def find(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """Find the best `count` documents of each query with their vectors, in one call."""
        ef, field, rows = max(self.search_effort.value, count), self._field, queries.tolist()
        if self._dialect == "elasticsearch":
            how = {"field": field, "k": count, "num_candidates": ef}
            return self._found([{"knn": {**how, "query_vector": row}} for row in rows], count)
        how = {"k": count, "method_parameters": {"ef_search": ef}}
        named = [{field: {**how, "vector": row}} for row in rows]
        return self._found([{"query": {"knn": one}} for one in named], count)

    def find_exact(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """Find the best `count` documents of each query by a script that reads all of them."""
        same = f"cosineSimilarity(params.query_value, '{self._field}') + 1.0"
        how = {"source": same, "lang": "painless"}
        if self._dialect == "opensearch":
            how = {"source": "knn_score", "lang": "knn"}
        space = {"field": self._field, "space_type": "cosinesimil"}
        scripts = [{**how, "params": {**space, "query_value": q.tolist()}} for q in queries]
        scored = [{"query": self._having, "script": script} for script in scripts]
        return self._found([{"query": {"script_score": one}} for one in scored], count)

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """Draw vectors of documents with the seed; at most 10,000."""
        drawn = {"query": self._having, "random_score": {"seed": seed, "field": "_seq_no"}}
        (found,) = self._found([{"query": {"function_score": drawn}}], min(count, MOST))
        return found.vectors

    def count(self) -> int:
        """The number of documents that have a vector."""
        return int(self._call("_count", {"query": self._having})["count"])

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Return the ids of documents with a vector; at most 10,000 at a time."""
        asked = {"ids": {"values": [one for one in ids if isinstance(one, str)]}}
        query = {"bool": {"filter": [self._having, asked]}}
        told = self._call("_search", {"query": query, "size": min(len(ids), MOST)})
        return {hit["_id"] for hit in told["hits"]["hits"]}

    @property
    def place(self) -> str:
        """Server, index and field."""
        return f"{self._url}/{self._index}?field={self._field}"

    @property
    def _having(self) -> dict[str, Any]:
        return {"exists": {"field": self._field}}

    def _about(self) -> Mapping[str, Any]:
        """Return the field's entry in the mapping."""
        (told,) = self._call("_mapping").values()
        about: Mapping[str, Any] = told["mappings"].get("properties", {}).get(self._field, {})
        if about.get("type") != TYPES[self._dialect]:
            raise GalleryMismatch(
                f'index "{self._index}" has no field "{self._field}" of type '
                f"{TYPES[self._dialect]}: correct field= in the address."
            )
        return about

    def _found(self, asked: Sequence[Mapping[str, Any]], count: int) -> list[Found]:
        """Run several searches in one request."""
        vectors: dict[str, Any] = {"_source": [self._field]}
        if self._dialect == "elasticsearch":  # from 9.2 on, _source has no vectors
            vectors = {"_source": False, "fields": [self._field]}
        lines = [line for one in asked for line in ({}, {**one, **vectors, "size": count})]
        answers = self._call("_msearch", *lines)["responses"]
        for answer in answers:
            if "error" in answer:
                raise BadInput(f"{self._dialect} refused a search: {answer['error']}.")
        return [self._rows(answer["hits"]["hits"]) for answer in answers]

    def _rows(self, hits: Sequence[Mapping[str, Any]]) -> Found:
        held = [hit.get("fields") or hit["_source"] for hit in hits]
        return Found([hit["_id"] for hit in hits], self._array([one[self._field] for one in held]))

    def _call(self, verb: str, *lines: Mapping[str, Any]) -> Any:
        """Send lines of JSON to the server and return its answer; raise the library's errors."""
        sent = "".join(f"{json.dumps(line)}\n" for line in lines).encode() or None
        url = f"{self._url}/{quote(self._index, safe='')}/{verb}"
        request = urllib.request.Request(url, sent, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = f"{error.code} {error.reason}"
            if 400 <= error.code < 500 and error.code != 429:
                raise BadInput(
                    f"{self._dialect} refused ({text}): correct the address, the index, or the "
                    "credentials."
                ) from None
        except (OSError, ValueError) as error:
            text = type(error).__name__
        raise EngineLost(f"{self._dialect} does not answer ({text}): is the server running?")


def open(address: str) -> Elasticsearch:
    """Open the index at "elasticsearch://host:9200/index?field=…" or "opensearch://…"."""
    parts = split_address(address, 9200, OPTIONS, EXAMPLE)
    if "://" not in parts.url or not parts.options.get("field"):
        raise BadInput(f"the address needs a host, an index and a field, expected {EXAMPLE}.")
    dialect: Dialect = "opensearch" if address.startswith("opensearch") else "elasticsearch"
    return Elasticsearch(
        *parts[:2], dialect=dialect, user=parts.user, password=parts.password, **parts.options
    )
