"""InfoMax: information maximisation with popularity as its prior, beside REST's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.galleries import Searchable
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.listed import Listed, listed
from queryshift.retrieval.popularity import popularity
from queryshift.retrieval.refinement import RefinedPrediction, refined
from queryshift.retrieval.step_view import StepView

from .base import Update, setting
from .losses import entropy, gap, hard_margin, reliability, uniformity, weighted_mean
from .source_like import FollowsSource, SourceLike

FLOOR = 1e-5  # inside the logarithm of the mean prediction


@dataclass(frozen=True)
class Demand(SourceLike):
    """Source-like pairs, and the first places that the latest queries gave."""

    claims: Tensor | None = None  # (n,) positions, this batch's last
    learnt: int = 0  # batches that were learnt from

    def check(self) -> None:
        """Refuse, with a ValueError, first places that are no positions."""
        super().check()
        if self.claims is not None and (self.claims.ndim != 1 or self.claims.dtype != torch.long):
            raise ValueError("first places of past queries are no list of positions")


@dataclass(frozen=True, kw_only=True)
class InfoMax(FollowsSource):
    """Refined prediction, uniformity and gap as REST; each prediction sure, all together as asked.

    The mean prediction is drawn to how often the stream asks for each candidate, not to uniform;
    the temperature is a part of the spread of the batch's similarities; the learning rate is
    high in the first batches and falls (docs/methods/infomax.md).

    Args:
        temperature: Temperature of the predictions; None is each batch's own: the spread of its
            similarities over `part`.
        neighbours: K, the candidates listed for a query, and the centroids.
        part: What the spread of similarities is divided by for the temperature.
        early: The learning rate is this many times `lr` in the first batch, then falls with the
            root of the number of batches.
        late: Least share of `lr` that it falls to.
        remembered: First places of past queries that popularity is told from.

    The other arguments are those of `Method`, and those of the queue of source-like pairs.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.InfoMax())
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    neighbours: int = setting(10, "paper", "K: listed candidates of a query, and centroids")
    part: float = setting(4.0, "ours", "the temperature is the similarities' spread over this")
    early: float = setting(3.0, "ours", "times `lr` in the first batch; falls with the root")
    late: float = setting(0.5, "ours", "least share of `lr` that it falls to")
    remembered: int = setting(1024, "ours", "first places that popularity is told from")

    fallback: ClassVar[Mapping[str, float]] = {"lr": 1e-3}

    @property
    def tau(self) -> float:
        """For wrappers, which have no batch to measure: the paper's 0.02 where none is given."""
        return 0.02 if self.temperature is None else self.temperature

    def check(self) -> None:
        """Parts and counts are more than nothing."""
        super().check()
        for name in ("neighbours", "remembered"):
            self._must(name, getattr(self, name) >= 1, "at least 1")
        for name in ("part", "early"):
            self._must(name, getattr(self, name) > 0, "more than 0")
        self._must("late", self.late >= 0, "a number of at least 0")

    def resolved(self, encoder: Encoder, lr: float | None = None, name: str | None = None) -> Self:
        """With the learning rate filled in; the temperature stays open, for each batch to set.

        Args:
            encoder: The encoder, which may recommend a rate.
            lr: A learning rate that wins over all others.
            name: The name that recommendations are looked up by; None is the method's own.

        Returns:
            The method with its rate set.
        """
        return replace(super().resolved(encoder, lr, name), temperature=self.temperature)

    def start(self, gallery: Searchable, device: torch.device) -> Demand:
        """An empty queue, and no first places."""
        return Demand.empty(gallery.centroids(1).to(device))

    def moved(self, memory: SourceLike, gallery: Searchable) -> SourceLike:
        """Other candidates: first places of the former mean nothing now."""
        return replace(memory, claims=None) if isinstance(memory, Demand) else memory

    def observe(self, forward: Forward, memory: SourceLike, step: int) -> SourceLike:
        """At a batch's first step: its most source-like pairs, and its first places."""
        if step > 0 or not isinstance(memory, Demand):
            return memory
        with torch.no_grad():
            claims = _first_places(listed(forward, self.neighbours))
        if memory.claims is not None:
            claims = torch.cat((memory.claims, claims))[-self.remembered - len(forward) :]
        queue = super().observe(forward, memory, step)
        return replace(queue, claims=claims, learnt=memory.learnt + 1)  # type: ignore[call-arg]

    def gradient(self, step_view: StepView, memory: SourceLike) -> Update:
        """The loss's gradient, at a rate that falls with the batches."""
        batches = memory.learnt if isinstance(memory, Demand) else 1
        factor = max(self.late, self.early / max(1, batches) ** 0.5)
        return replace(super().gradient(step_view, memory), rate=factor)

    def loss(self, forward: Forward, memory: SourceLike) -> Tensor:
        """L_U + L_G + L_REM + L_RHM as REST, and mean E + KL(mean prediction || popularity)."""
        deviation = gap(forward.vectors, forward.nearest) - memory.gap
        return (
            uniformity(forward.vectors)
            + deviation.square()
            + self._reliable(forward, memory)
            + self._as_asked(forward, memory)
        )

    def logits(self, forward: Forward) -> Tensor:
        """The refined prediction (B, C)."""
        return self._refined(forward).logits

    def _temperature(self, forward: Forward) -> float:
        if self.temperature is not None:
            return self.temperature
        return listed(forward, self.neighbours).spread / self.part

    def _refined(self, forward: Forward) -> RefinedPrediction:
        return refined(forward, self.neighbours, self._temperature(forward))

    def _reliable(self, forward: Forward, memory: SourceLike) -> Tensor:
        """Entropy and hardest negative of queries that are sure enough to be trusted."""
        prediction = self._refined(forward)
        entropies = entropy(prediction.logits)
        weights = reliability(entropies, memory.entropy_limit + self.limit_margin)
        positive, hardest = prediction.hardest()
        margins = hard_margin((1 + positive) / 2 + FLOOR, (1 + hardest) / 2 + FLOOR)
        return weighted_mean(entropies + margins, weights)

    def _as_asked(self, forward: Forward, memory: SourceLike) -> Tensor:
        """Each prediction over the listed candidates sure, their mean as candidates are asked."""
        known = listed(forward, self.neighbours)
        logits = known.scores / self._temperature(forward)
        mean = logits.softmax(dim=1).mean(dim=0)
        wanted = torch.ones_like(mean)
        claims = memory.claims if isinstance(memory, Demand) else None
        if claims is not None and len(claims) > len(forward):  # those of batches before this one
            earlier = claims[: -len(forward)]
            asked = popularity(earlier, known.positions, len(forward.gallery)).to(mean)
            wanted = asked / asked.mean()
        return entropy(logits).mean() + (mean * ((mean + FLOOR).log() - wanted.log())).sum()


def _first_places(known: Listed) -> Tensor:
    """Position (B,) of each query's first place, corrected for hubs within the batch."""
    scores, beta = known.scores.detach(), known.spread / 2
    strength = (1 - known.sureness(4)).mean()
    corrected = scores - strength * beta * torch.logsumexp(scores / beta, dim=0)
    return known.positions[corrected.nan_to_num(nan=-torch.inf).argmax(dim=1)]
