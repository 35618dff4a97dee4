"""Qdrant Edge: Qdrant's own segments in a folder, searched in this process without a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadFile
from queryshift.support.optional import need

from ..addresses import address_options
from ..hits import Id
from ..searchable import SearchEffort
from ..seen_candidates import Found
from .qdrant_gallery import LARGEST_EF, PointsGallery, check_named

OPTIONS = {"vector": str, "ef": int, "exact": int}


class QdrantEdge(PointsGallery):
    """Candidates in a shard of Qdrant Edge; its points' ids are the ids.

    One process has a shard open at a time: close it before another opens it.

    Args:
        folder: The shard's folder.
        vector: The name of the vector where points have named ones.
        ef: Breadth of an HNSW search; at least 256 for shifted queries.
        exact: Search without the index; a shard that was never optimised has none.

    Examples:
        >>> QdrantEdge("captions.shard")  # doctest: +SKIP
        QdrantEdge("captions.shard")
    """

    def __init__(
        self, folder: str | Path, *, vector: str = "", ef: int = 256, exact: bool = False
    ) -> None:
        self._edge = need("qdrant_edge", "qdrant-edge", "a shard of Qdrant Edge")
        self._folder, self._vector = Path(folder), vector
        size, distance = self._description()
        super().__init__(size)
        self._shard = self._load()
        try:
            self.exact = bool(exact) or self._shard.info().indexed_vectors_count == 0
            self.search_effort = None if self.exact else SearchEffort("ef", ef, LARGEST_EF)
            self._check_stored(str(folder), distance)
        except Exception:
            self.close()
            raise

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """`count` vectors that Qdrant draws, which takes no seed; all in their order of fewer."""
        if self.count() <= count:
            request = self._edge.ScrollRequest(limit=max(count, 1), with_vector=True)
            return self._array(self._shard.scroll(request)[0])
        random = self._edge.Sample.Random
        request = self._edge.QueryRequest(limit=count, query=random, with_vector=True)
        return self._array(self._shard.query(request))

    def count(self) -> int:
        """The number of points."""
        return int(self._shard.count(self._edge.CountRequest()))

    @property
    def place(self) -> str:
        """The shard's folder and the vector."""
        return f"{self._folder.resolve()}?vector={self._vector}"

    @property
    def version(self) -> str:
        """The number of points, and of the last change of any of them."""
        segments = self._shard.snapshot_manifest().values()
        return f"{self.count()} at {max(one['segment_version'] or 0 for one in segments)}"

    def close(self) -> None:
        """Write what is pending and let others open the shard."""
        self._shard.close()

    def __repr__(self) -> str:
        return f'QdrantEdge("{self._folder}")'

    def _search(self, queries: NDArray[np.float32], count: int, **how: Any) -> list[Found]:
        nearest, vector = self._edge.Query.Nearest, self._vector or None
        asked = {"limit": count, "params": self._edge.SearchParams(**how), "with_vector": True}
        rows = (nearest(query.tolist(), vector) for query in queries)
        requests = [self._edge.QueryRequest(query=row, **asked) for row in rows]
        answers = self._shard.query_batch(self._edge.QueryBatchRequest(requests))
        return [self._found(points) for points in answers]

    def _points(self, ids: Sequence[Id]) -> Sequence[Any]:
        return cast("Sequence[Any]", self._shard.retrieve(ids, False, False))

    def _description(self) -> tuple[int, str]:
        """The length of the vectors, and their metric."""
        path = self._folder / "edge_config.json"
        try:
            named = json.loads(path.read_text())["vectors"]
        except (OSError, ValueError, KeyError, TypeError):
            raise BadFile(
                f'no shard of Qdrant Edge in "{self._folder}": create it, or correct the address.'
            ) from None
        check_named("the shard", named, self._vector)
        return int(named[self._vector]["size"]), str(named[self._vector]["distance"])

    def _load(self) -> Any:
        try:
            return self._edge.EdgeShard.load(str(self._folder))
        except Exception as error:  # the package raises no narrower class
            raise BadFile(
                f'the shard in "{self._folder}" cannot be opened ({error}): close it where it is '
                "open, in this process or another."
            ) from None


def open(address: str) -> QdrantEdge:
    """The shard at "qdrant-edge:FOLDER", or "qdrant-edge:FOLDER?ef=512&vector=image"."""
    folder, _, query = address.removeprefix("qdrant-edge:").partition("?")
    return QdrantEdge(folder, **address_options(query, OPTIONS))
