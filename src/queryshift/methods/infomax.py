"""InfoMax: every prediction sure, and all of them together spread over the candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.galleries import Searchable
from queryshift.retrieval.batch import StepView
from queryshift.retrieval.forward import Forward, in_memory
from queryshift.retrieval.shortlists import Listed, listed

from .base import Method, Update, setting
from .losses import entropy

FLOOR = 1e-5  # inside the logarithm of the mean prediction
LARGEST_COUNT = 2**53  # its root is taken, as a float's


@dataclass(frozen=True)
class Learnt:
    """How many batches were learnt from."""

    learnt: int = 0

    def check(self) -> None:
        """Refuse, with a ValueError, what is no count."""
        if type(self.learnt) is not int or not 0 <= self.learnt < LARGEST_COUNT:
            raise ValueError(f"learnt is {self.learnt!r}, no count")


@dataclass(frozen=True, kw_only=True)
class InfoMax(Method):
    """Information maximisation at a falling rate, from ever fewer of a batch's queries.

    As SHOT, each prediction is made sure and their mean is kept even over the candidates
    (docs/methods/infomax.md).

    Args:
        temperature: Temperature of the predictions; None is each batch's own: the spread of its
            similarities over `part`.
        part: What the spread of similarities is divided by for the temperature.
        neighbours: K: over a search engine predictions are over all candidates that some query of
            the batch has among its K best.

    The other arguments are those of `Method`. `lr` is the rate in the first batch; it falls with
    the root of the number of batches. Without a rate of the user or the encoder the session takes
    one from its first batch, such that query vectors move a set way.

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
    weight_decay: float = setting(0.0, "ours", "decoupled, also on norm gains")

    fallback: ClassVar[Mapping[str, float]] = {"lr": 3e-3}
    own_temperature: ClassVar[bool] = True
    rate_of_stream: ClassVar[bool] = True

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

    def moved(self, memory: Learnt, gallery: Searchable) -> Learnt:
        """Other candidates change no count."""
        return memory

    def check_memory(self, memory: Learnt, gallery: Searchable) -> None:
        """The memory is a count."""
        if not isinstance(memory, Learnt):
            raise ValueError("the memory holds no count of batches")
        memory.check()

    def observe(self, forward: Forward, memory: Learnt, step: int) -> Learnt:
        """At a batch's first step: one more batch."""
        return memory if step > 0 else Learnt(memory.learnt + 1)

    def step_share(self, memory: Learnt) -> float:
        """The share of a batch's queries that one of its steps learns from: whole, half, third.

        Few sizes: a GPU plans and records each size of a batch anew.
        """
        return 1 / round((memory.learnt + 1) ** 0.5)

    def gradient(self, step_view: StepView, memory: Learnt) -> Update:
        """The loss's gradient, at a rate that falls with the batches."""
        factor = max(1, memory.learnt) ** -0.5
        return replace(super().gradient(step_view, memory), rate=factor)

    def loss(self, forward: Forward, memory: Learnt) -> Tensor:
        """Mean E - H(mean prediction)."""
        known = self._candidates(forward)
        logits = known.scores / (self.temperature or known.spread / self.part)
        mean = logits.softmax(dim=1).mean(dim=0)
        return entropy(logits).mean() + (mean * (mean + FLOOR).log()).sum()

    def _candidates(self, forward: Forward) -> Listed:
        """All candidates of a gallery in memory; those that some query lists, of an engine's."""
        if forward.fixed_columns and in_memory(forward.gallery):
            every = torch.arange(len(forward.gallery), device=forward.vectors.device)
            return Listed(every, forward.scores, forward.exclude is not None)
        return listed(forward, self.neighbours)
