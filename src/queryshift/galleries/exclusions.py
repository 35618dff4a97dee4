"""Exclusions: candidates that a query must not find, and scores without them."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import repr as shortened
from typing import Any, Literal

import torch
from torch import Tensor

from queryshift.errors import BadInput, unknown

from .hits import Id, is_id
from .searchable import Searchable

Exclusion = Sequence[Id] | Id | None
Missing = Literal["raise", "ignore"]
Group = Sequence[tuple[Any, Exclusion]]  # queries with their exclusions


def excluded_pairs(
    exclude: Sequence[Exclusion] | None, queries: int, gallery: Searchable
) -> Tensor | None:
    """Return the excluded (query, position) pairs (P, 2); None if there are none."""
    ids = exclusions_by_query(exclude, queries)
    if ids is None:
        return None
    every = [one for ids_of_query in ids for one in ids_of_query]
    places = iter(gallery.positions(every))  # all at once: an engine may have to be asked
    excluded = [{next(places) for _ in ids_of_query} for ids_of_query in ids]
    for row, positions in enumerate(excluded):
        if len(positions) == len(gallery):
            raise BadInput(
                f"all {len(gallery)} candidates are excluded for query {row}: leave some."
            )
    pairs = sorted((row, place) for row, positions in enumerate(excluded) for place in positions)
    return torch.tensor(pairs, dtype=torch.long, device="cpu") if pairs else None


def joined_queries(parts: Sequence[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """Join the query vectors and the excluded pairs of several batches."""
    pairs, first = [], 0
    for queries, exclude in parts:
        if exclude is not None:
            pairs.append(exclude + exclude.new_tensor([first, 0]))
        first += len(queries)
    return torch.cat([queries for queries, _ in parts]), torch.cat(pairs) if pairs else None


def exclusions_of_rows(rows: Tensor, exclude: Tensor | None) -> Tensor | None:
    """Return the excluded pairs (P, 2) of some queries, renumbered from 0."""
    if exclude is None:
        return None
    kept = exclude[rows[exclude[:, 0]]]
    return torch.stack((rows.cumsum(0)[kept[:, 0]] - 1, kept[:, 1]), dim=1)


def mask_excluded(
    scores: Tensor, exclude: Tensor | None, columns: int | Tensor = 0, first_query: int = 0
) -> Tensor:
    """Return scores (B, C) with -inf at excluded pairs; in place if no gradient is needed.

    Arguments:
        scores: of the queries from `first_query` on.
        exclude: (query, position) pairs (P, 2), as `excluded_pairs` gives them.
        columns: the gallery position of the first column, or those of all columns (C,).
        first_query: which query the first row is of.
    """
    if exclude is None or len(exclude) == 0:
        return scores
    found = excluded_cells(exclude, scores.shape, columns, first_query)
    cells = tuple(index.to(scores.device) for index in found)
    put = scores.index_put if scores.requires_grad else scores.index_put_
    return put(cells, scores.new_tensor(-torch.inf))


def excluded_cells(
    exclude: Tensor, shape: Sequence[int], columns: int | Tensor = 0, first_query: int = 0
) -> tuple[Tensor, Tensor]:
    """Rows and columns of the cells that `mask_excluded` masks in scores of this shape (B, C)."""
    rows, positions = exclude[:, 0] - first_query, exclude[:, 1]
    if isinstance(columns, Tensor):
        pair, positions = (positions.to(columns.device)[:, None] == columns).nonzero().T
        rows = rows.to(columns.device)[pair]
    else:
        positions = positions - columns
    inside = (rows >= 0) & (rows < shape[0]) & (positions >= 0) & (positions < shape[1])
    return rows[inside], positions[inside]


def exclusions_by_query(exclude: Any, queries: int) -> list[list[Id]] | None:
    """Return the ids to leave out for each query as lists; iterators can be read only once."""
    if exclude is None:
        return None
    if isinstance(exclude, str) or not hasattr(exclude, "__iter__"):
        raise BadInput(
            f"got {exclude!r} as exclude, expected a list that says for each query what to leave "
            f"out: [{exclude!r}] for one query, [{exclude!r}, None] for two."
        )
    listed = [_listed(ids) for ids in exclude]
    if len(listed) != queries:
        raise BadInput(f"got exclusions for {len(listed)} of {queries} queries: give one each.")
    return listed


def known_exclusions(group: Group, gallery: Searchable, missing: Missing) -> Group:
    """Return queries with their exclusions, without unknown ids if `missing` is "ignore"."""
    if missing not in ("raise", "ignore"):
        raise unknown("choice of missing", missing, ("raise", "ignore"))
    if missing == "raise":
        return group
    there = _known([one for _, ids in group for one in _listed(ids)], gallery)
    return [(query, [one for one in _listed(ids) if one in there]) for query, ids in group]


def _known(ids: list[Id], gallery: Searchable) -> set[Id]:
    """Return the ids that exist; an engine is asked at most twice, and only about new ids."""
    try:
        gallery.positions(ids)
    except BadInput:
        return gallery.known(ids)
    return set(ids)


def exclusions_left(group: Group, gallery: Searchable) -> list[tuple[Any, Exclusion]]:
    """Return queries with the exclusions that still apply in another gallery.

    A query whose candidates are all excluded is dropped.
    """
    if not any(ids for _, ids in group):
        return list(group)
    known = gallery.known([one for _, ids in group for one in _listed(ids)])
    kept = [(query, known.intersection(_listed(ids))) for query, ids in group]
    return [(query, list(ids)) for query, ids in kept if len(ids) < len(gallery)]


def _listed(ids: Any) -> list[Id]:
    """Return the ids of one query's exclusion as a list; arrays and tensors are converted."""
    try:
        ids = ids.tolist() if hasattr(ids, "tolist") else ids
    except (NotImplementedError, RuntimeError, TypeError):  # sparse, without values, or a class
        raise BadInput(
            f"got {shortened(ids)} as ids to leave out, expected a list of text or whole numbers."
        ) from None
    if isinstance(ids, str) or not (ids is None or hasattr(ids, "__iter__")):
        ids = [ids]
    listed = list(() if ids is None else ids)
    for one in listed:
        if not is_id(one):
            raise BadInput(
                f"got {shortened(one)} as an id to leave out, expected text or a whole number."
            )
    return listed
