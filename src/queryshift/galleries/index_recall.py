"""Recall of an index against exact search, and the cache of checks in the user's folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from queryshift.support.atomic_files import replacing
from queryshift.support.paths import user_folder
from queryshift.support.progress import track

from .candidate_checks import as_array
from .engine import EngineGallery
from .searchable import SearchEffort
from .seen_candidates import Found

ENOUGH = 0.97  # recall of the best ten; below it, adaptation loses accuracy
AWAY = 0.1  # how far queries move from the mean of their nearest candidates
NEAREST = 10  # candidates that they move away from
BATCH = 64  # queries per call of the engine
ROUNDING = 1e-6  # of scores that are computed twice
WIDER, DEEPER = 6, 3  # tries: up to 6 doublings of the search effort, then 3 times the depth
GROWTH = 0.1  # a check is too old if the number of candidates changed by more than this share


def exact_search(gallery: EngineGallery) -> EngineGallery:
    """Return the same gallery, but every search goes past the index."""
    exact = copy(gallery)
    exact.exact, exact.find = True, gallery.find_exact  # type: ignore[method-assign]
    return exact


@dataclass(frozen=True)
class Recall:
    """Shares of the exact best candidates that an index finds.

    Args:
        at_10: of the best ten, ranked again in float from `depth` hits, as sessions do.
        at_depth: of the best `depth`.

    Examples:
        >>> from queryshift.galleries.index_recall import Recall
        >>> Recall(at_10=0.99, at_depth=0.95).at_10
        0.99
    """

    at_10: float
    at_depth: float


def index_recall(
    gallery: EngineGallery, queries: Tensor, shifted: Tensor | None, depth: int
) -> tuple[Recall, Recall, str]:
    """Measure an index against exact search, and look for a setting that finds enough.

    Args:
        gallery: The engine's; it is searched as it is set now.
        queries: Unit vectors (B, D).
        shifted: The same or other queries under a shift; by default `moved_away` makes them.
        depth: Hits that sessions fetch for a query.

    Returns:
        The recall for the queries as they are and under a shift, and advice if one is too low.
    """
    asked = as_array(queries)
    deepest = min(depth * DEEPER, gallery.count())
    nearest = gallery.find_exact(asked, deepest)
    moved = moved_away(asked, nearest) if shifted is None else as_array(shifted)
    both = (asked, moved)
    exact = (_all_scores(asked, nearest), _all_scores(moved, gallery.find_exact(moved, deepest)))
    ordinary, under_shift = (
        recall(gallery, vectors, best, depth) for vectors, best in zip(both, exact, strict=True)
    )
    enough = min(ordinary.at_10, under_shift.at_10) >= ENOUGH
    return ordinary, under_shift, "" if enough else _advice(gallery, both, exact, depth)


def moved_away(queries: NDArray[np.float32], nearest: Sequence[Found]) -> NDArray[np.float32]:
    """Move queries (B, D) away from their nearest candidates, at unit length.

    A shift makes queries less similar to their candidates. Moved this far, queries are as hard to
    search for as the hardest corrupted images of docs/research/engines.md.

    Args:
        queries: Unit vectors (B, D).
        nearest: The exact best candidates of each.

    Examples:
        >>> import numpy as np
        >>> from queryshift.galleries import Found
        >>> from queryshift.galleries.index_recall import moved_away
        >>> near = [Found(["a"], np.float32([[1, 0]]))]
        >>> bool(moved_away(np.float32([[0.6, 0.8]]), near)[0, 0] < 0.6)
        True
    """
    sums = np.stack(
        [hits.vectors[:NEAREST].reshape(-1, queries.shape[1]).sum(0) for hits in nearest]
    )
    moved = queries - AWAY * sums / np.linalg.norm(sums, axis=1, keepdims=True)
    return cast("NDArray[np.float32]", moved / np.linalg.norm(moved, axis=1, keepdims=True))


def recall(
    gallery: EngineGallery, queries: NDArray[np.float32], exact: NDArray[np.float32], depth: int
) -> Recall:
    """Measure the recall of an index, one query at a time.

    Args:
        gallery: The engine's.
        queries: Unit vectors (B, D).
        exact: The exact scores (B, depth or more) of each query's best candidates, best first.
        depth: Hits to fetch for a query.
    """
    pieces = range(0, len(queries), BATCH)
    found = [hit for at in pieces for hit in gallery.find(queries[at : at + BATCH], depth)]
    scores = [_scores(query, hits) for query, hits in zip(queries, found, strict=True)]
    return Recall(_share(scores, exact, min(10, depth)), _share(scores, exact, depth))


def _share(scores: Sequence[NDArray[np.float32]], exact: NDArray[np.float32], count: int) -> float:
    """Return the share of the first `count` hits that score as high as the exact best `count`."""
    count = min(count, exact.shape[1])
    last = exact[:, count - 1] - ROUNDING
    found = [int((row[:count] >= least).sum()) for row, least in zip(scores, last, strict=True)]
    return float(np.mean(found)) / count


def _scores(query: NDArray[np.float32], hits: Found) -> NDArray[np.float32]:
    """Return the cosines of hits in float, best first."""
    vectors = np.asarray(hits.vectors, dtype=np.float32).reshape(len(hits.ids), -1, len(query))
    cosines = (vectors / np.linalg.norm(vectors, axis=2, keepdims=True)) @ query
    return cast("NDArray[np.float32]", -np.sort(-cosines.max(axis=1)))


def _all_scores(queries: NDArray[np.float32], found: Sequence[Found]) -> NDArray[np.float32]:
    """Return the cosines (B, count) of all queries' hits."""
    return np.stack([_scores(query, hits) for query, hits in zip(queries, found, strict=True)])


def _advice(
    gallery: EngineGallery,
    queries: Sequence[NDArray[np.float32]],
    exact: Sequence[NDArray[np.float32]],
    depth: int,
) -> str:
    """Try broader and deeper searches, and say which setting finds enough."""

    def worst(hits: int) -> float:
        pairs = zip(queries, exact, strict=True)
        return min(recall(gallery, asked, best, hits).at_10 for asked, best in pairs)

    before = gallery.search_effort
    try:
        for wider in track(list(_wider(gallery)), "trying broader searches"):
            gallery.search_effort = wider
            if (found := worst(depth)) >= ENOUGH:
                return f'add "{wider}" to the address: it finds {found:.3f}'
        deeper = exact[0].shape[1]
        if deeper > depth and (found := worst(deeper)) >= ENOUGH:
            effort = gallery.search_effort
            first = f'add "{effort}" to the address and ' if effort else ""
            return (
                f"{first}make sessions with depth={deeper}: so many hits are ranked again in "
                f"float, which finds {found:.3f}"
            )
    finally:
        gallery.search_effort = before
    return (
        "no broader or deeper search finds enough: make the index again with more links (HNSW: "
        "M=32, efConstruction=256) or less compression"
    )


def _wider(gallery: EngineGallery) -> Iterator[SearchEffort]:
    """Yield twice the effort, four times and so on, up to the engine's limit."""
    effort = gallery.search_effort
    for _ in range(WIDER):
        if effort is None or effort.value >= effort.largest:
            return
        effort = replace(effort, value=min(2 * effort.value, effort.largest))
        yield effort


@dataclass(frozen=True)
class CachedRecall:
    """The stored result of a gallery's check."""

    place: str
    version: str
    candidates: int
    breadth: str  # "ef=256", or nothing
    recall: float  # at ten; the lower of ordinary and shifted queries
    advice: str
    measured: Any  # all measurements, for people who read the file


def store_recall(gallery: EngineGallery, recall: float, advice: str, measured: Any) -> None:
    """Store a gallery's check, replacing an earlier one atomically."""
    state = (gallery.place, gallery.version, gallery.count(), _effort(gallery))
    check = CachedRecall(*state, recall, advice, measured)
    with replacing(_path(gallery)) as temporary:
        temporary.write_text(json.dumps(asdict(check), indent=1))


def cached_recall(gallery: EngineGallery) -> CachedRecall | None:
    """Return the stored check of a gallery if it still holds.

    None if there is none, if it was made at another search effort, or if both the version and
    the number of candidates have changed since, the number by more than a tenth.
    """
    try:
        check = CachedRecall(**json.loads(_path(gallery).read_text()))
    except (OSError, ValueError, TypeError):  # not there, or no check
        return None
    if check.breadth != _effort(gallery):
        return None
    changed = abs(gallery.count() - check.candidates) > GROWTH * check.candidates
    return None if changed and gallery.version != check.version else check


def _effort(gallery: EngineGallery) -> str:
    return str(gallery.search_effort or "")


def _path(gallery: EngineGallery) -> Path:
    known_by = f"{type(gallery).__name__} {gallery.place}".encode()
    return user_folder() / "recall" / f"{blake2b(known_by, digest_size=12).hexdigest()}.json"
