"""`check_recall`: the recall of an index, and what it costs a session."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadInput, GalleryMismatch
from queryshift.galleries import EngineGallery, Searchable
from queryshift.galleries.candidate_checks import as_tensor
from queryshift.galleries.index_recall import (
    ENOUGH,
    Recall,
    exact_search,
    index_recall,
    store_recall,
)
from queryshift.methods import REST, Frozen
from queryshift.methods.base import Method
from queryshift.retrieval.pool import DEPTH

from .events import outside_level
from .inputs import RecallWarning
from .session import Session

BATCH = 64


@dataclass(frozen=True)
class RecallCheck:
    """The recall of an index compared with exact search.

    Args:
        ordinary: recall for the given queries.
        shifted: recall for shifted queries.
        queries: number of queries.
        depth: number of hits that sessions fetch for a query.
        breadth: how broadly the index was searched: "ef=256", or nothing.
        advice: what to change, where less than .97 of the best ten are found.
        agreement: for "frozen" and "rest", the share of queries whose first answer is that of a
            session over exact search; nothing without an encoder.

    Examples:
        >>> import queryshift as qs
        >>> from queryshift.galleries.index_recall import Recall
        >>> low = Recall(at_10=0.92, at_depth=0.88)
        >>> qs.RecallCheck(Recall(0.99, 0.98), low, 256, 100, "ef=64", "ef=256", {}).enough
        False
    """

    ordinary: Recall
    shifted: Recall
    queries: int
    depth: int
    breadth: str
    advice: str
    agreement: dict[str, float]

    @property
    def recall(self) -> float:
        """The lower recall@10 of the two."""
        return min(self.ordinary.at_10, self.shifted.at_10)

    @property
    def enough(self) -> bool:
        """Whether a session can rely on the index: recall@10 is at least .97."""
        return self.recall >= ENOUGH


def check_recall(
    gallery: Searchable,
    queries: Sequence[Any],
    *,
    encoder: Encoder | None = None,
    shifted: Sequence[Any] | None = None,
    depth: int = DEPTH,
) -> RecallCheck:
    """Measure the index of a search engine against exact search, and keep the result.

    It is kept in the user's folder ($QUERYSHIFT_HOME, or where applications keep their data) with
    the gallery's version; a session over an engine that has none, or a low one, warns.

    Args:
        gallery: A gallery in a search engine.
        queries: A few hundred query vectors, or items of the encoder.
        encoder: Makes vectors of items; with it, REST is run over the index and over exact search.
        shifted: The same queries under a shift, as vectors or items. By default the queries'
            vectors are moved away from the candidates nearest to them.
        depth: Hits that sessions fetch for a query.

    Returns:
        The recalls, and what to change where they are low.

    Examples:
        >>> import queryshift as qs
        >>> memory = qs.Gallery.from_vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
        >>> try:
        ...     qs.check_recall(memory, [[0.6, 0.8]])
        ... except qs.Error as error:
        ...     print(str(error)[:32])
        this gallery is searched exactly
    """
    if not isinstance(gallery, EngineGallery) or gallery.exact:
        raise BadInput("this gallery is searched exactly: there is nothing to measure.")
    plain = _vectors(queries, encoder, gallery)
    moved = None if shifted is None else _vectors(shifted, encoder, gallery)
    ordinary, under_shift, advice = index_recall(gallery, plain, moved, depth)
    gallery.recall_told = True  # by what this returns
    asked = queries if shifted is None else shifted
    check = RecallCheck(
        ordinary,
        under_shift,
        len(plain),
        depth,
        str(gallery.search_effort or ""),
        advice,
        {} if encoder is None else _agreements(encoder, gallery, asked, depth),
    )
    _keep(gallery, check)
    return check


def _keep(gallery: EngineGallery, check: RecallCheck) -> None:
    """Save a check for later sessions; if that fails, only warn."""
    if not gallery.place:
        return
    try:
        store_recall(gallery, check.recall, check.advice, asdict(check))
    except OSError as error:
        warnings.warn(
            f"the check could not be kept ({error.strerror}): set QUERYSHIFT_HOME to a folder that "
            "can be written to.",
            RecallWarning,
            stacklevel=outside_level(),
        )


def _vectors(queries: Sequence[Any], encoder: Encoder | None, gallery: EngineGallery) -> Tensor:
    """Unit vectors (B, D) of queries, which are vectors if there is no encoder."""
    if len(queries) == 0:
        raise BadInput("got no queries, expected at least one: a few hundred measure well.")
    if encoder is None:
        vectors = as_tensor(queries).float()
    else:
        starts = range(0, len(queries), BATCH)
        vectors = torch.cat([encoder.encode(queries[at : at + BATCH]) for at in starts]).float()
    if vectors.ndim != 2 or vectors.shape[1] != gallery.dimension:
        raise GalleryMismatch(
            f"got query vectors of shape {tuple(vectors.shape)}, expected (queries, "
            f"{gallery.dimension}), as the gallery's are."
        )
    if not bool(torch.isfinite(vectors).all()) or not bool(vectors.abs().amax(dim=1).all()):
        raise BadInput("got query vectors with NaN or only zeros: drop those queries.")
    return normalize(vectors, dim=1)


def _agreements(
    encoder: Encoder, gallery: EngineGallery, items: Sequence[Any], depth: int
) -> dict[str, float]:
    """For each method, the share of top-1 results equal to those over exact search."""
    exact = exact_search(gallery)
    return {
        method.name: _agreement(
            _top_results(encoder, gallery, items, depth, method),
            _top_results(encoder, exact, items, depth, method),
        )
        for method in (Frozen(), REST())
    }


def _agreement(left: Sequence[Any], right: Sequence[Any]) -> float:
    same = [one == other for one, other in zip(left, right, strict=True)]
    return float(sum(same)) / len(same)


def _top_results(
    encoder: Encoder, gallery: Searchable, items: Sequence[Any], depth: int, method: Method
) -> list[Any]:
    session = Session(encoder, gallery, method, depth=depth)
    starts = range(0, len(items), BATCH)
    answers = [session.answer(items[at : at + BATCH]).top(1).ids for at in starts]
    return [first for answer in answers for (first,) in answer]
