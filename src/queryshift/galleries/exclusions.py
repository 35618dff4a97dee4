"""Candidates that must not be found: for each query of a batch, some are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from queryshift.errors import BadInput

from . import Id, Searchable

Exclusion = Sequence[Id] | Id | None
Group = Sequence[tuple[Any, Exclusion]]  # queries with what to leave out for each


def excluded_pairs(
    exclude: Sequence[Exclusion] | None, queries: int, gallery: Searchable
) -> Tensor | None:
    """(query, position) pairs that must not meet; None if there are none."""
    ids = exclusions_by_query(exclude)
    if ids is None:
        return None
    if len(ids) != queries:
        raise BadInput(f"got exclusions for {len(ids)} of {queries} queries: give one each.")
    places = [set(gallery.positions(one)) for one in ids]
    for row, found in enumerate(places):
        if len(found) == len(gallery):
            raise BadInput(
                f"all {len(gallery)} candidates are excluded for query {row}: leave some."
            )
    pairs = sorted((row, place) for row, found in enumerate(places) for place in found)
    return torch.tensor(pairs, dtype=torch.long, device="cpu") if pairs else None


def exclusions_by_query(exclude: Any) -> list[list[Id]] | None:
    """The ids to leave out for each query, as lists: an iterator can be looked at only once."""
    if exclude is None:
        return None
    if isinstance(exclude, str) or not hasattr(exclude, "__iter__"):
        raise BadInput(
            f"got {exclude!r} as exclude, expected a list that says for each query what to leave "
            f"out: [{exclude!r}] for one query, [{exclude!r}, None] for two."
        )
    return [_listed(one) for one in exclude]


def exclusions_left(group: Group, gallery: Searchable) -> list[tuple[Any, Exclusion]]:
    """Queries with what another gallery still has to leave out for them.

    A query for which it would leave out everything is dropped.
    """
    if not any(ids for _, ids in group):
        return list(group)
    there = set(gallery.ids)
    kept = [(query, there.intersection(_listed(ids))) for query, ids in group]
    return [(query, list(ids)) for query, ids in kept if len(ids) < len(gallery)]


def _listed(ids: Any) -> list[Id]:
    """The ids of one query's exclusion, which may be NumPy's or torch's."""
    ids = ids.tolist() if hasattr(ids, "tolist") else ids
    if isinstance(ids, str) or not (ids is None or hasattr(ids, "__iter__")):
        return [ids]
    return list(ids or ())
