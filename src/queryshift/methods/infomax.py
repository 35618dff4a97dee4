"""InfoMax: each prediction confident, and their mean spread over the candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self, cast

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.galleries import Searchable
from queryshift.galleries.exclusions import mask_excluded
from queryshift.galleries.memory.exact_search import in_memory, similarity
from queryshift.retrieval.forward import Forward

from .base import Method, StepView, Update, check_count, setting
from .losses import entropy

SMALLEST_SPREAD = 1e-4  # of similarities: temperatures stay above 0
FLOOR = 1e-5  # inside the logarithm of the mean prediction


@dataclass(frozen=True)
class Learnt:
    """How many batches were learnt from."""

    learnt: int = 0


@dataclass(frozen=True, kw_only=True)
class InfoMax(Method):
    """Information maximisation with a falling learning rate, the default.

    As in SHOT, each prediction becomes confident while the mean prediction stays spread over the
    candidates (docs/methods/infomax.md).

    Args:
        temperature: Temperature of the predictions; None: the standard deviation of the batch's
            similarities, divided by `part`.
        part: What the standard deviation is divided by for the temperature.
        neighbours: K: over a search engine or a huge gallery, predictions cover the union of each
            query's K best candidates.

    The other arguments are those of `Method`. `lr` is the rate in the first batch; it falls with
    the square root of the number of batches. If neither you nor the encoder give one, the
    session finds it in its first batch: the rate that moves query vectors by a fixed distance.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.InfoMax())
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    lr: float | None = setting(
        None, "ours", "learning rate; None: the encoder's recommendation, else the stream's"
    )
    temperature: float | None = setting(
        None, "ours", "of the predictions; None: the spread of similarities over `part`"
    )
    part: float = setting(3.0, "ours", "the temperature is the similarities' spread over this")
    neighbours: int = setting(10, "ours", "K: hits of a query that stand for the gallery")
    weight_decay: float = setting(0.0, "ours", "decoupled, also on norm gains")

    fallback: ClassVar[Mapping[str, float]] = {"lr": 3e-3}
    own_temperature: ClassVar[bool] = True
    rate_of_stream: ClassVar[bool] = True

    @property
    def tau(self) -> float:
        """The temperature for wrappers, which see no batch: the paper's 0.02 by default."""
        return 0.02 if self.temperature is None else self.temperature

    @property
    def smallest_batch(self) -> int:
        """Two: one query has no mean prediction of its own."""
        return 2

    def check(self) -> None:
        """Refuse settings that cannot work."""
        super().check()
        self._must("neighbours", self.neighbours >= 1, "at least 1")
        self._must("part", self.part > 0, "more than 0")

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

    def start(self, gallery: Searchable, device: torch.device) -> Learnt:
        """Nothing learnt yet."""
        return Learnt()

    def check_memory(self, memory: Learnt, gallery: Searchable) -> None:
        """The memory is a count."""
        check_count(getattr(memory, "learnt", None), "learnt")

    def observe(self, forward: Forward, memory: Learnt, step: int) -> Learnt:
        """At a batch's first step: one more batch."""
        return memory if step > 0 else Learnt(memory.learnt + 1)

    def step_share(self, memory: Learnt) -> float:
        """The share of a batch's queries that one of its steps learns from: whole, half, third.

        Few sizes: a GPU has to record each size of a batch separately.
        """
        return cast(float, 1 / round((memory.learnt + 1) ** 0.5))

    def gradient(self, step_view: StepView, memory: Learnt) -> Update:
        """The loss's gradient, at a rate that falls with the batches."""
        factor = max(1, memory.learnt) ** -0.5
        return replace(super().gradient(step_view, memory), rate=factor)

    def loss(self, forward: Forward, memory: Learnt) -> Tensor:
        """Mean E - H(mean prediction)."""
        scores = self._scores(forward)
        excludes = forward.exclude is not None
        logits = scores / (self.temperature or _spread(scores, excludes) / self.part)
        mean = logits.softmax(dim=1).mean(dim=0)
        return entropy(logits).mean() + (mean * (mean + FLOOR).log()).sum()

    def _scores(self, forward: Forward) -> Tensor:
        """Similarities to all candidates in memory, or to the union of an engine's shortlists."""
        if forward.fixed_columns and in_memory(forward.gallery):
            return forward.scores
        return _union_scores(forward, self.neighbours)


def _union_scores(forward: Forward, neighbours: int) -> Tensor:
    """Similarity (B, L) to every candidate among the best `neighbours` of some query."""
    hits = forward.hits(neighbours)
    positions = torch.unique(hits.positions)
    vectors = hits.candidates.vectors_at(positions[None])[0].to(forward.vectors)
    return mask_excluded(similarity(forward.vectors, vectors), forward.exclude, columns=positions)


def _spread(scores: Tensor, excludes: bool) -> Tensor:
    """Standard deviation of similarities, of which excluded ones are -inf."""
    scores = scores.detach()
    if excludes:
        scores = scores[torch.isfinite(scores)]  # waits for a GPU
        if not len(scores):
            return torch.ones((), device=scores.device)
    return scores.std(correction=0).clamp(min=SMALLEST_SPREAD)
