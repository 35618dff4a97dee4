"""Leave out the items of a dataset that cannot be read, and the queries without an answer left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from queryshift.errors import BadFile
from queryshift.media.lazy_items import Composed, LazyItems, Source, selected
from queryshift.support.progress import track

from ..dataset import Dataset


def usable(dataset: Dataset, strict: bool = False) -> tuple[Dataset, list[str]]:
    """The dataset without unreadable items, and a sentence on each item left out.

    Every file is opened once. A candidate that cannot be read is no candidate; a query is left out
    if it cannot be read, or if no right answer to it is left. With `strict`, the first such thing
    is an error, and so is whatever the annotations already made the reader leave out.
    """
    if strict and dataset.left_out:
        raise BadFile(
            f"{dataset.name}: {dataset.left_out[0]} ({len(dataset.left_out)} such in all): mend "
            "the annotations, or go on without them (not strict)."
        )
    faults = _faults(dataset, strict)
    kept = _narrowed(dataset, _readable(dataset.candidates, faults))
    rows, lost = [], []
    for row in _readable(dataset.queries, faults):
        if dataset.matches[row] and not kept.matches[row]:
            lost.append(f'query "{dataset.query_ids[row]}" has no right answer left.')
        else:
            rows.append(row)
    return kept.asking(rows), [*dataset.left_out, *faults.values(), *lost]


def _faults(dataset: Dataset, strict: bool) -> dict[Source, str]:
    """The error of each file that cannot be opened; a file of both sides is opened once."""
    sides = [side for side in (dataset.queries, dataset.candidates) if isinstance(side, LazyItems)]
    sources = dict.fromkeys(_opened(source) for side in sides for source in side.sources)
    faults = {}
    for source in track(sources, f"reading {dataset.name}"):
        try:
            source.open()
        except BadFile as error:
            if strict:
                raise BadFile(f"{error} Mend it, or go on without it (not strict).") from error
            faults[source] = str(error)
    return faults


def _opened(source: Source) -> Source:
    """The source to open: of a composed query, its image."""
    return source.image if isinstance(source, Composed) else source


def _readable(items: Sequence[Any], faults: Mapping[Source, str]) -> list[int]:
    rows = range(len(items))
    if not isinstance(items, LazyItems):
        return list(rows)
    return [row for row in rows if _opened(items.sources[row]) not in faults]


def _narrowed(dataset: Dataset, rows: Sequence[int]) -> Dataset:
    """The dataset with the candidates in these rows alone."""
    place = {old: new for new, old in enumerate(rows)}

    def moved(lists: Sequence[Sequence[int]]) -> list[list[int]]:
        return [[place[old] for old in each if old in place] for each in lists]

    return replace(
        dataset,
        candidates=selected(dataset.candidates, rows),
        candidate_ids=selected(dataset.candidate_ids, rows) if dataset.candidate_ids else (),
        matches=moved(dataset.matches),
        exclude=moved(dataset.exclude),
        subsets=moved(dataset.subsets),
    )
