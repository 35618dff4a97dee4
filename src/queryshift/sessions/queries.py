"""Queries as a user hands them over, read into a batch; unreadable ones may be skipped."""

from __future__ import annotations

from typing import Any, Literal

from queryshift.encoders.prepared import check_several
from queryshift.errors import BadInput, BadItem, unknown
from queryshift.galleries import Searchable
from queryshift.galleries.exclusions import Exclusion, Group, excluded_pairs, exclusions_by_query
from queryshift.retrieval.batch import Batch
from queryshift.support.alone import working

from .adaptation import Adaptation

OnBad = Literal["raise", "skip"]


def grouped(queries: Any, exclude: Any) -> list[tuple[Any, Exclusion]]:
    """Each query with what to leave out for it."""
    check_several(queries)
    items = list(queries)
    ids = None if exclude is None else exclusions_by_query(exclude)
    if ids is not None and len(ids) != len(items):
        raise BadInput(f"got exclusions for {len(ids)} of {len(items)} queries: give one each.")
    exclusions: list[Exclusion] = [None] * len(items) if ids is None else [*ids]
    return list(zip(items, exclusions, strict=True))


@working()
def prepared_batch(adaptation: Adaptation, group: Group, gallery: Searchable) -> Batch:
    """A batch of queries with their exclusions, prepared on the encoder's device."""
    _check_device(adaptation)
    shared = adaptation.encoder.ready([item for item, _ in group])
    exclusions = [ids for _, ids in group]
    excluded = None
    if any(ids is not None for ids in exclusions):
        excluded = excluded_pairs(exclusions, len(group), gallery)
    return Batch(
        adaptation.encoder,
        gallery,
        shared,
        excluded,
        adaptation.settings.chunk,
        adaptation.matching,
        adaptation.depth,
        whole=adaptation.settings.hubs is not None,
    )


def readable_batch(
    adaptation: Adaptation, group: Group, gallery: Searchable, on_bad: OnBad
) -> tuple[Batch, Group, tuple[BadItem, ...]]:
    """The batch, its queries, and those that were left out because they cannot be read."""
    if on_bad not in ("raise", "skip"):
        raise unknown("choice of on_bad", on_bad, ("raise", "skip"))
    kept, places = list(group), list(range(len(group)))
    skipped: list[BadItem] = []
    while True:
        try:
            return prepared_batch(adaptation, kept, gallery), kept, tuple(skipped)
        except BadItem as bad:
            if on_bad == "raise" or len(kept) == 1:
                raise
            skipped.append(BadItem(places.pop(bad.index), bad.reason, bad.kind))
            del kept[bad.index]


def _check_device(adaptation: Adaptation) -> None:
    """Refuse an encoder that went elsewhere: what was learnt did not go with it."""
    first, device = next(iter(adaptation.source.values()), None), adaptation.encoder.device
    if first is not None and first.device != device:
        raise BadInput(
            f"the encoder is on {device}, but was on {first.device} when the session was made: "
            "save it, then Session.load it for the encoder as it is."
        )
