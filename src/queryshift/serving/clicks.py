"""Clicks on answers: which requests they may name, each counted once, and what they say."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from queryshift.errors import BadInput
from queryshift.galleries.hits import Id
from queryshift.sessions.feedback import ENOUGH, ClickScores

from .answering.answers import PLACES, Answered
from .errors import NotFound

MOST_BYTES = 2**18  # of a tenant's remembered answers
NO_CLICKS = {"source": None, "adapted": None, "clicks": 0, "better": None}
Clicks = Sequence[tuple[int, Sequence[Id]]]  # a query's place in its request, and what was clicked


@dataclass(eq=False)
class _Kept:
    """The first ids of both answers to each query of a request, as JSON, and what was clicked."""

    ids: bytes
    clicked: set[tuple[int, Id]] = field(default_factory=set)


class RecentAnswers:
    """Answers to a tenant's latest requests, for which clicks may still come."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    def remember(self, request_id: str, answers: Sequence[Answered], most: int) -> None:
        """Keep the ids of both answers of a request; of `most` requests, the latest."""
        ids = [[[hit["id"] for hit in hits] for hits in one.both().values()] for one in answers]
        self._forget(request_id)
        self._kept[request_id] = _Kept(json.dumps(ids).encode())
        self._bytes += len(self._kept[request_id].ids)
        while len(self._kept) > max(most, 1) or (self._bytes > MOST_BYTES and len(self._kept) > 1):
            self._forget(next(iter(self._kept)))

    def new_clicks(
        self, request_id: str, clicks: Clicks
    ) -> Iterator[tuple[Id, list[Id], list[Id]]]:
        """Clicks that were not counted yet, each with the ids of both answers.

        What neither answer has among its first places is passed over.
        """
        kept = self._kept.get(request_id)
        if kept is None:
            raise NotFound(
                f'no answers of both models are kept for the request "{request_id}": that is done '
                "in shadow mode and with keep_queries, for the latest tenants.feedback_requests."
            )
        answers: list[tuple[list[Id], list[Id]]] = json.loads(kept.ids)
        for query, _ in clicks:  # all of them, before any is counted
            if not 0 <= query < len(answers):
                raise BadInput(f"query {query} is none of the request's {len(answers)}.")
        for query, ids in clicks:
            source, adapted = answers[query]
            for clicked in ids:
                found = clicked in source or clicked in adapted
                if found and (query, clicked) not in kept.clicked:
                    kept.clicked.add((query, clicked))
                    yield clicked, source, adapted

    def _forget(self, request_id: str) -> None:
        if (kept := self._kept.pop(request_id, None)) is not None:
            self._bytes -= len(kept.ids)


def click_summary(clicks: ClickScores) -> dict[str, Any] | None:
    """How well source and adapted answers rank what was clicked; None without clicks.

    It draws clicks anew thousands of times, which takes a while.
    """
    counts = Counter[tuple[int, int]]()
    for (source, adapted), times in clicks.counts().items():
        counts[_place(source), _place(adapted)] += times
    if not counts:
        return None
    summary = ClickScores(counts).summary()
    return {
        "source": summary.source_mrr,
        "adapted": summary.adapted_mrr,
        **{name: value for name, value in asdict(summary).items() if not name.endswith("mrr")},
        "interval": summary.interval if summary.clicks >= ENOUGH else None,
        "better": summary.better,
        "needed": ENOUGH,
    }


def _place(rank: int) -> int:
    return rank if rank <= PLACES else 0
