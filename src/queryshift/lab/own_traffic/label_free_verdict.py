"""Advice without labels: whether to adapt, from how adaptation changes the top-1 results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from queryshift.errors import BadInput
from queryshift.galleries import Gallery
from queryshift.media.item_collection import as_collection
from queryshift.methods.frozen import Frozen
from queryshift.sessions.reference_queries import ReferenceQueries
from queryshift.sessions.session import Session

from .recommendation import DECISIVE_CLICKS, in_words, rounded
from .replay import BATCH, replay
from .traffic import Traffic

Verdict = Literal["adapt", "do not adapt", "cannot tell"]
FEWEST = 128  # queries; with fewer there is no verdict
POPULAR = 0.01  # of the candidates: those that take the most top-1 results
COMPARED = 512  # queries and candidates whose nearest neighbours are compared, at most
ALIKE = 0.5  # of the top-1 results taken by one candidate: the session tells nothing apart
KEPT = 0.8  # of the source's different results
CROWDED = 0.05  # growth of the share of top-1 results that the most frequent candidates take
CHANGED = 0.01  # of the top-1 results: with fewer changes nothing can be gained or lost
UNKNOWN = ("Without right answers, nobody can measure accuracy, before or after.",)


@dataclass(frozen=True)
class Limits:
    """When the verdict is "adapt" (docs/research/label-free-verdict.md)."""

    spread: float = 0.05  # of the hub share, which adaptation must take away from hubs
    most: float = 0.7  # of the top-1 results: with more changes, the model as it is was lost
    few: float = 0.15  # of the top-1 results: with fewer changes, only what hubs held is changed
    repeated: float = 1.25  # times as near to each other as candidates: queries ask for the same


LIMITS = Limits()


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


@dataclass(frozen=True)
class Signals:
    """Statistics that need no labels; shares from 0 to 1."""

    queries: int
    changed: float  # top-1 results that adaptation changes
    hub_share_before: float  # of top-1 results that the most frequent 1 % of candidates take
    hub_share_after: float
    different_before: float  # different top-1 results per query
    different_after: float
    largest_share_after: float  # of top-1 results that one candidate takes
    repeats: float  # mean cosine of a query to the nearest other, over that of candidates
    shift_score: float | None  # standard errors from reference queries, where some are given

    @property
    def spread(self) -> float:
        """How much of the hubs' top-1 results adaptation gives to others."""
        return 1 - self.hub_share_after / self.hub_share_before

    @property
    def hub_shares(self) -> str:
        """The hub share before and after, in words."""
        return f"{_percent(self.hub_share_before)} before, {_percent(self.hub_share_after)} after"


@dataclass(frozen=True)
class Advice:
    """A verdict with its reasons, its measurements and its limits."""

    verdict: Verdict
    method: str
    reasons: tuple[str, ...]
    signals: Signals
    unknown: tuple[str, ...] = UNKNOWN
    encoder: str = "encoder"  # in Python

    @property
    def use(self) -> str:
        """The method to use for now."""
        return self.method if self.verdict == "adapt" else "frozen"

    @property
    def sentence(self) -> str:
        """The advice in a sentence."""
        what = in_words(self.method, self.encoder)
        if self.verdict == "adapt":
            return f"Adapt: use {what}. A gain is likely, but no label confirms it."
        if self.verdict == "do not adapt":
            return f"Do not adapt: keep the model as it is. {self.reasons[0]}"
        return f"Cannot tell whether {what} helps. {self.clicks}"

    @property
    def clicks(self) -> str:
        """How many clicks would settle it, by a sign test."""
        changed = self.signals.changed
        queries = rounded(DECISIVE_CLICKS / max(changed, CHANGED))
        return (
            f"To find out, collect {DECISIVE_CLICKS} clicks on top-1 results that only one of the "
            "models has. They are enough if the better model gets two of three (sign test, 5 % "
            f"level, 80 % power). The models differ for {_percent(changed)} of the queries, so ask "
            f"at least {queries:,} queries in shadow mode, or give the right answers of as many."
        )

    @property
    def measured(self) -> list[tuple[str, str]]:
        """Each measure in words, and its value."""
        now = self.signals
        hubs = "top-1 results that the most frequent 1 % of the candidates take (hub share)"
        nearness = "similarity of a query to the nearest other, compared with candidates"
        different = f"{now.different_before:.2f} before, {now.different_after:.2f} after"
        rows = [
            ("queries", f"{now.queries:,}"),
            ("top-1 results that adaptation changes", _percent(now.changed)),
            (hubs, now.hub_shares),
            ("different top-1 results per query", different),
            (nearness, f"{now.repeats:.2f} times"),
        ]
        if now.shift_score is not None:
            distance = f"{now.shift_score:.1f} standard errors"
            rows.append(("distance from your reference queries (shift score)", distance))
        return rows

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {**asdict(self), "sentence": self.sentence, "clicks": DECISIVE_CLICKS}


def advise(
    traffic: Traffic,
    method: str,
    session: Callable[[], Session],
    reference: Any = None,
    batch: int = BATCH,
) -> Advice:
    """Whether to adapt to this traffic.

    Args:
        traffic: the queries and candidates.
        method: the one that is judged, by its name.
        session: makes a fresh session of it.
        reference: queries from before any shift: a path or items.
        batch: queries that are answered at once.
    """
    frozen = Session(traffic.encoder, traffic.gallery, Frozen(), guard=None)
    source = replay(traffic, frozen, "frozen, method 1 of 2: batches", batch)
    adapted = replay(traffic, session(), f"{method}, method 2 of 2: batches", batch)
    signals = signals_of(
        source.top[:, 0],
        adapted.top[:, 0],
        source.vectors,
        traffic.gallery,
        _shift_score(traffic, reference, source.vectors),
    )
    verdict, reasons = judge(signals)
    return Advice(verdict, method, tuple(reasons), signals, encoder=traffic.encoder_in_code)


def signals_of(
    before: Tensor, after: Tensor, vectors: Tensor, gallery: Gallery, shift_score: float | None
) -> Signals:
    """Statistics of the top-1 results (Q,) before and after, and of the source's vectors."""
    few = max(1, round(POPULAR * len(gallery)))
    return Signals(
        queries=len(before),
        changed=float((before != after).double().mean()),
        hub_share_before=hub_share(before, few),
        hub_share_after=hub_share(after, few),
        different_before=_different(before),
        different_after=_different(after),
        largest_share_after=hub_share(after, 1),
        repeats=_repeats(vectors, gallery),
        shift_score=shift_score,
    )


def judge(signals: Signals, limits: Limits = LIMITS) -> tuple[Verdict, list[str]]:
    """The verdict that the measures allow; any reason against adapting decides."""
    if signals.queries < FEWEST:
        return "cannot tell", [f"{signals.queries} queries are too few, {FEWEST} are needed."]
    against = _reasons_against(signals)
    if against:
        return "do not adapt", against
    changed = f"Adaptation changes {_percent(signals.changed)} of the top-1 results"
    lost = _percent(signals.spread)
    hubs = f"hubs, the candidates that come first most often, lose {lost} of these results"
    if signals.spread < limits.spread:
        return "cannot tell", [f"{changed}, but the most frequent ones stay as frequent."]
    if signals.changed >= limits.most:
        return "adapt", [f"{changed}, and {hubs}."]
    if signals.changed > limits.few:
        return "cannot tell", [
            f"{changed}, and {hubs}. In our tests, adaptation that changed between "
            f"{100 * limits.few:.0f} and {100 * limits.most:.0f} % helped as often as not."
        ]
    if signals.repeats > limits.repeated:
        return "cannot tell", [
            f"{changed}, and {hubs}. But many queries seem to ask for the same thing, so the same "
            "candidates may be right to come first often."
        ]
    return "adapt", [f"{changed}, and {hubs}: few changes, most of them where a hub came first."]


def hub_share(first: Tensor, candidates: int) -> float:
    """Share of the top-1 results (Q,) that the most frequent candidates take."""
    most = Counter(first.tolist()).most_common(candidates)
    return sum(count for _, count in most) / len(first)


def _different(first: Tensor) -> float:
    return len(set(first.tolist())) / len(first)


def _reasons_against(signals: Signals) -> list[str]:
    before, after = signals.different_before, signals.different_after
    reasons = []
    if signals.changed < CHANGED:
        share = f"{100 * signals.changed:.1f} %"
        reasons.append(f"Adaptation changes only {share} of the top-1 results.")
    if signals.largest_share_after > ALIKE:
        share = _percent(signals.largest_share_after)
        reasons.append(f"After adaptation one candidate comes first for {share} of the queries.")
    if after < KEPT * before:
        reasons.append(
            f"With adaptation, fewer different candidates come first: {before:.2f} per query "
            f"before, {after:.2f} after."
        )
    if signals.hub_share_after > signals.hub_share_before + CROWDED:
        more = "The most frequent 1 % of the candidates take more top-1 results"
        reasons.append(f"{more}: {signals.hub_shares}.")
    return reasons


def _repeats(vectors: Tensor, gallery: Gallery) -> float:
    """Similarity of neighbouring queries, divided by that of as many candidates."""
    count = min(COMPARED, len(vectors), len(gallery))
    draw = torch.Generator().manual_seed(0)
    some = torch.randperm(len(gallery), generator=draw)[:count]
    candidates = gallery.vectors[some.to(gallery.vectors.device)].flatten(0, -2)[:count]
    every = torch.linspace(0, len(vectors) - 1, count).round().long()
    return _nearest_other(vectors[every]) / max(_nearest_other(candidates.cpu()), 1e-6)


def _nearest_other(vectors: Tensor) -> float:
    """Mean cosine of a vector to the nearest other, all moved to have their mean at 0."""
    if len(vectors) < 2:
        return 1.0
    moved = normalize(vectors.double() - vectors.double().mean(dim=0), dim=1)
    return float((moved @ moved.T).fill_diagonal_(-1).amax(dim=1).mean())


def _shift_score(traffic: Traffic, reference: Any, vectors: Tensor) -> float | None:
    """Distance of the queries from the gallery, in standard errors above reference queries."""
    if reference is None:
        return None
    sample = as_collection(reference)
    try:
        measured = ReferenceQueries.of(traffic.encoder, traffic.gallery, sample.items)
    except BadInput:  # a model with one answer for everything has no shift score
        return None
    error = measured.deviation * (1 / len(vectors) + 1 / measured.count) ** 0.5
    nearest = traffic.gallery.search(vectors.to(traffic.encoder.device), 1).scores[:, 0].mean()
    return float((measured.mean - nearest) / error)
