"""InfoMax: every prediction sure, and all of them together as the stream asks for candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.galleries import Searchable
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.listed import Listed, in_memory, listed
from queryshift.retrieval.popularity import popularity
from queryshift.retrieval.step_view import StepView

from .base import Method, Update, setting
from .losses import entropy

FLOOR = 1e-5  # inside the logarithm of the mean prediction
LARGEST_COUNT = 2**53  # its root is taken, as a float's


@dataclass(frozen=True)
class FirstPlaces:
    """The first places that the latest queries gave: what the stream asks for."""

    claims: Tensor | None = None  # (n,) positions, this batch's last
    learnt: int = 0  # batches that were learnt from

    def check(self) -> None:
        """Refuse, with a ValueError, first places that are no positions, and what is no count."""
        if type(self.learnt) is not int or not 0 <= self.learnt < LARGEST_COUNT:
            raise ValueError(f"learnt is {self.learnt!r}, no count")
        if self.claims is None:
            return
        known = isinstance(self.claims, Tensor) and self.claims.dtype == torch.long
        if not known or self.claims.ndim != 1:
            raise ValueError("first places of past queries are no list of positions")


@dataclass(frozen=True, kw_only=True)
class InfoMax(Method):
    """Information maximisation with the stream's own popularity as prior, at a falling rate.

    As SHOT, each prediction is made sure and their mean is drawn to a prior: here to how often the
    stream asks for each candidate, which is uniform until candidates come again and again
    (docs/methods/infomax.md).

    Args:
        temperature: Temperature of the predictions; None is each batch's own: the spread of its
            similarities over `part`.
        part: What the spread of similarities is divided by for the temperature.
        neighbours: K: a query's first place is looked for among so many hits; over a search engine
            predictions are over all candidates that some query of the batch has among them.
        early: The learning rate is this many times `lr` in the first batch, then falls with the
            root of the number of batches.
        late: Least share of `lr` that it falls to.
        remembered: First places of past queries that popularity is told from.

    The other arguments are those of `Method`.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.InfoMax())
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    part: float = setting(3.0, "ours", "the temperature is the similarities' spread over this")
    neighbours: int = setting(10, "ours", "K: hits of a query that stand for the gallery")
    early: float = setting(3.0, "ours", "times `lr` in the first batch; falls with the root")
    late: float = setting(0.5, "ours", "least share of `lr` that it falls to")
    remembered: int = setting(1024, "ours", "first places that popularity is told from")

    fallback: ClassVar[Mapping[str, float]] = {"lr": 1e-3}
    own_temperature: ClassVar[bool] = True

    @property
    def tau(self) -> float:
        """For wrappers, which have no batch to measure: the paper's 0.02 where none is given."""
        return 0.02 if self.temperature is None else self.temperature

    @property
    def smallest_batch(self) -> int:
        """One query has no mean to be drawn anywhere: it is only scored."""
        return 2

    def check(self) -> None:
        """Counts and factors are more than nothing."""
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

    def start(self, gallery: Searchable, device: torch.device) -> FirstPlaces:
        """No first places yet."""
        return FirstPlaces()

    def moved(self, memory: FirstPlaces, gallery: Searchable) -> FirstPlaces:
        """Other candidates: first places of the former mean nothing now."""
        return replace(memory, claims=None)

    def check_memory(self, memory: FirstPlaces, gallery: Searchable) -> None:
        """The memory is a list of first places, or none yet."""
        if not isinstance(memory, FirstPlaces):
            raise ValueError("the memory holds no first places of past queries")
        memory.check()

    def observe(self, forward: Forward, memory: FirstPlaces, step: int) -> FirstPlaces:
        """At a batch's first step: its first places."""
        if step > 0:
            return memory
        with torch.no_grad():
            claims = _first_places(listed(forward, self.neighbours))
        if memory.claims is not None:
            earlier = memory.claims.to(claims)
            claims = torch.cat((earlier, claims))[-self.remembered - len(forward) :]
        return FirstPlaces(claims, memory.learnt + 1)

    def gradient(self, step_view: StepView, memory: FirstPlaces) -> Update:
        """The loss's gradient, at a rate that falls with the batches."""
        factor = max(self.late, self.early / max(1, memory.learnt) ** 0.5)
        return replace(super().gradient(step_view, memory), rate=factor)

    def loss(self, forward: Forward, memory: FirstPlaces) -> Tensor:
        """Mean E + KL(mean prediction || popularity)."""
        known = self._candidates(forward)
        logits = known.scores / (self.temperature or known.spread / self.part)
        mean = logits.softmax(dim=1).mean(dim=0)
        prior = self._prior(known, forward, memory).to(mean)
        return entropy(logits).mean() + (mean * ((mean + FLOOR).log() - prior.log())).sum()

    def _candidates(self, forward: Forward) -> Listed:
        """All candidates of a gallery in memory; those that some query lists, of an engine's."""
        if forward.fixed_columns and in_memory(forward.gallery):
            every = torch.arange(len(forward.gallery), device=forward.vectors.device)
            return Listed(every, forward.scores)
        return listed(forward, self.neighbours)

    def _prior(self, known: Listed, forward: Forward, memory: FirstPlaces) -> Tensor:
        """How many times the average one's share each candidate is asked for, by batches before."""
        earlier = None if memory.claims is None else memory.claims[: -len(forward)]
        if earlier is None or len(earlier) == 0:
            return torch.ones(len(known.positions), device=known.positions.device)
        asked = popularity(earlier, known.positions, len(forward.gallery))
        return asked / asked.mean()


def _first_places(known: Listed) -> Tensor:
    """Position (B,) of each query's first place, corrected for hubs within the batch."""
    scores, beta = known.scores.detach(), known.spread / 2
    strength = (1 - known.sureness(4)).mean()
    corrected = scores - strength * beta * torch.logsumexp(scores / beta, dim=0)
    return known.positions[corrected.nan_to_num(nan=-torch.inf).argmax(dim=1)]
