"""One group of a tenant's queries, learnt; runs in the learner's thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from queryshift.errors import Error
from queryshift.galleries.hits import Id
from queryshift.sessions.session import Session
from queryshift.support.priority import yield_to_answers, yielding

from ..json_values import iso, plain
from .queries import Raw, decoded, size_of

MEASURES = ("strangeness", "spread", "gap", "entropy")  # of a batch
Row = dict[str, Any]


@dataclass(frozen=True)
class Taught:
    """A query that was answered and is to be learnt.

    Attributes:
        raw: the query as it came, decoded anew when it is learnt: files take less memory.
        item: a vector in its place, where nothing in the encoder is trained.
        exclude: ids that were left out for it.
    """

    raw: Raw | None
    item: Any
    exclude: Sequence[Id]

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return int(self.item.nbytes) if self.raw is None else size_of(self.raw)


def learn_group(session: Session, modality: str, given: Sequence[Taught]) -> Row | None:
    """Adapt a session to a group, pausing while queries are answered; its statistics.

    None where the group was emptied.
    """
    group = list(given)  # at once: it may be given up until now
    if not group:
        return None
    with yielding():
        items = [_item(one, modality) for one in group]
        exclude = [list(one.exclude) for one in group]
        asked = exclude if any(exclude) else None
        answer = session.answer(items, exclude=asked, on_bad="skip", missing="ignore")
        agreement = _agreement(answer)
    stats = session.stats()
    return {
        "time": iso(time.time()),
        "queries": stats.queries,
        **{name: plain(getattr(stats, name)) for name in MEASURES},
        "agreement": agreement,
        "updated": stats.adapted,
        "guard": stats.restart,
    }


def _item(one: Taught, modality: str) -> Any:
    yield_to_answers()
    return one.item if one.raw is None else decoded(one.raw, modality)


@torch.no_grad()
def _agreement(answer: Any) -> float | None:
    """The share of first places that source and adapted answers have in common."""
    try:
        same = answer.top(1).positions == answer.source.top(1).positions
        return float(same.float().mean())
    except Error:
        return None
