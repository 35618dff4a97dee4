"""Advice without labels: what can be known of adaptation when no right answer is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from queryshift.errors import BadInput
from queryshift.media.collection import as_collection
from queryshift.methods.base import Method
from queryshift.methods.frozen import Frozen
from queryshift.sessions.ordinary import Ordinary
from queryshift.sessions.session import Session

from .replay import BATCH, Replay, replay
from .traffic import Traffic

Verdict = Literal["adapt", "do not adapt", "cannot tell"]
FEWEST = 128  # queries, below which nothing can be told
PROBES = 256  # queries that both halves of the stream are asked
POPULAR = 0.01  # of the candidates: those that take the most first places
ALIKE = 0.5  # of the first places taken by one candidate: the source tells nothing apart
STRANGE = 10.0  # standard errors from ordinary queries; popular candidates alone reach five
KEPT = 0.8  # of the source's different answers
CROWDED = 0.05  # growth of the share of first places that the most frequent candidates take
STEADY = 0.6  # of the changed answers that both halves of the stream change alike
UNSTEADY = 0.15  # the same: so few are alike only where adaptation loses its way
CHANGED = 0.05  # of the answers: fewer changes cannot be worth much

UNKNOWN = (
    "Without right answers nobody can say how often the answers are right, before or after.",
    "The verdict is an estimate from this stream only: matches or clicks for a hundred queries "
    "tell more.",
)


@dataclass(frozen=True)
class Signals:
    """What can be measured without labels; shares from 0 to 1."""

    queries: int
    largest_share: float  # of first places that one candidate takes, before
    hub_share_before: float  # of first places that the most frequent 1 % of candidates take
    hub_share_after: float
    variety_before: float  # different first answers per query
    variety_after: float
    agreement: float  # first answers that adaptation leaves as they are
    stability: float | None  # changed answers that both halves of the stream change alike
    nearer: float  # mean cosine of a query to its first answer, after less before
    strangeness: float | None  # standard errors from ordinary queries, where a sample is given


@dataclass(frozen=True)
class Advice:
    """A verdict with its reasons, what was measured, and what cannot be known."""

    verdict: Verdict
    method: str
    reasons: tuple[str, ...]
    signals: Signals
    unknown: tuple[str, ...] = UNKNOWN

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def advise(traffic: Traffic, method: Method, ordinary: Any = None, batch: int = BATCH) -> Advice:
    """Whether to adapt to this traffic with a method.

    Args:
        traffic: the queries and candidates.
        method: the one that is judged.
        ordinary: a sample of queries as they come when all is well: a path or items.
        batch: queries that are answered at once.
    """
    signals = measure(traffic, method, ordinary, batch)
    verdict, reasons = judge(signals)
    return Advice(verdict, method.name, tuple(reasons), signals)


def measure(traffic: Traffic, method: Method, ordinary: Any, batch: int) -> Signals:
    """Replay the stream with and without adaptation, and look at the answers."""
    source, adapted = replay(traffic, Frozen(), batch), replay(traffic, method, batch)
    return signals_of(traffic, method, ordinary, source, adapted, batch)


def signals_of(
    traffic: Traffic, method: Method, ordinary: Any, source: Replay, adapted: Replay, batch: int
) -> Signals:
    """What two replays of a stream, and two halves of it, tell."""
    before, after = source.top[:, 0], adapted.top[:, 0]
    few = max(1, round(POPULAR * len(traffic.candidates)))
    return Signals(
        queries=len(before),
        largest_share=hub_share(before, 1),
        hub_share_before=hub_share(before, few),
        hub_share_after=hub_share(after, few),
        variety_before=_variety(before),
        variety_after=_variety(after),
        agreement=float((before == after).double().mean()),
        stability=_stability(traffic, method, source, batch),
        nearer=_nearest(traffic, adapted) - _nearest(traffic, source),
        strangeness=_strangeness(traffic, ordinary, source),
    )


def judge(signals: Signals) -> tuple[Verdict, list[str]]:
    """The verdict that the measures allow; any reason against adapting decides."""
    against = _reasons_against(signals)
    if against:
        return "do not adapt", against
    if signals.stability is None or signals.stability < STEADY:
        steady = "too few" if signals.stability is None else f"{100 * signals.stability:.0f} %"
        return "cannot tell", [
            f"{steady} of the changed answers are changed alike by both halves of the stream."
        ]
    reasons = [
        f"Adaptation changes {100 * (1 - signals.agreement):.0f} % of the first answers, and both "
        f"halves of the stream change {100 * signals.stability:.0f} % of them alike.",
        f"Different answers per query: {signals.variety_before:.2f} before, "
        f"{signals.variety_after:.2f} after.",
    ]
    if signals.strangeness is None:
        return "cannot tell", [
            *reasons,
            "Whether these queries are unusual is not known: give a sample of ordinary ones.",
        ]
    return "adapt", [
        f"The queries lie {signals.strangeness:.1f} standard errors further from the gallery than "
        "ordinary ones.",
        *reasons,
    ]


def hub_share(first: Tensor, candidates: int) -> float:
    """Share of the first places (Q,) that the most frequent candidates take."""
    most = Counter(first.tolist()).most_common(candidates)
    return sum(count for _, count in most) / len(first)


def _variety(first: Tensor) -> float:
    return len(set(first.tolist())) / len(first)


def _reasons_against(signals: Signals) -> list[str]:
    before, after = signals.variety_before, signals.variety_after
    reasons = []
    if signals.queries < FEWEST:
        reasons.append(f"{signals.queries} queries are too few, {FEWEST} are needed.")
    if signals.largest_share > ALIKE:
        share = f"{100 * signals.largest_share:.0f} %"
        reasons.append(
            f"The source model gives one candidate {share} of the first places: it tells these "
            "queries apart too little to learn from its own answers."
        )
    if signals.strangeness is not None and signals.strangeness <= STRANGE:
        reasons.append(
            f"The queries look ordinary ({signals.strangeness:.1f} standard errors from the "
            "sample): there is no shift to adapt to."
        )
    if after < KEPT * before:
        reasons.append(f"Adaptation has fewer different answers: {before:.2f} to {after:.2f}.")
    if signals.hub_share_after > signals.hub_share_before + CROWDED:
        reasons.append(
            f"The most frequent candidates take more first places: {signals.hub_share_before:.2f} "
            f"before, {signals.hub_share_after:.2f} after."
        )
    if signals.nearer < 0:
        reasons.append(
            f"Queries come no nearer to their answers: {signals.nearer:+.3f} in mean cosine."
        )
    if signals.stability is not None and signals.stability < UNSTEADY:
        reasons.append(
            f"The two halves of the stream change only {100 * signals.stability:.0f} % of the "
            "answers alike: what is learnt is chance."
        )
    if 1 - signals.agreement < CHANGED:
        changed = f"{100 * (1 - signals.agreement):.0f} %"
        reasons.append(f"Adaptation changes only {changed} of the first answers.")
    return reasons


def _stability(traffic: Traffic, method: Method, source: Replay, batch: int) -> float | None:
    """Of probed answers that one half of the stream changes, the share both change alike."""
    count = len(traffic.queries)
    probes = list(range(0, count, max(1, count // PROBES)))
    halves = (range(count // 2), range(count // 2, count))
    answers = [_after(traffic, method, half, probes, batch) for half in halves]
    before = source.top[probes, 0]
    changed = (answers[0] != before) | (answers[1] != before)
    if not changed.any():
        return None
    return float((answers[0] == answers[1])[changed].double().mean())


def _after(
    traffic: Traffic, method: Method, rows: Sequence[int], probes: Sequence[int], batch: int
) -> Tensor:
    """First answers to the probes after adapting to some of the stream."""
    session = Session(traffic.encoder, traffic.gallery, method, seed=traffic.seed, guard=None)
    for start in range(0, len(rows), batch):
        session.answer(traffic.batch(rows[start : start + batch]))
    firsts = [
        session.answer(traffic.batch(probes[start : start + batch]), adapt=False).top(1).positions
        for start in range(0, len(probes), batch)
    ]
    return torch.cat(firsts)[:, 0]


def _strangeness(traffic: Traffic, ordinary: Any, source: Replay) -> float | None:
    if ordinary is None:
        return None
    sample = as_collection(ordinary)
    try:
        measured = Ordinary.of(traffic.encoder, traffic.gallery, sample.items)
    except BadInput:  # one answer for everything: nothing is strange to such a model
        return None
    error = measured.deviation * (1 / len(source.vectors) + 1 / measured.count) ** 0.5
    return float((measured.mean - _nearest(traffic, source)) / error)


def _nearest(traffic: Traffic, outcome: Replay) -> float:
    """Mean cosine of the queries to their nearest candidates."""
    vectors = outcome.vectors.to(traffic.encoder.device)
    return float(traffic.gallery.search(vectors, 1).scores[:, 0].mean())
