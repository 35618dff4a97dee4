"""SAR (Niu et al., ICLR 2023): entropy of reliable queries, at a flat minimum, with recovery."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, log

import torch

from queryshift.galleries import Searchable
from queryshift.retrieval.forward import Forward

from .base import StepView, Update, setting
from .eata import EntropyFilter
from .gradients import norm
from .losses import entropy


@dataclass(frozen=True, kw_only=True)
class SAR(EntropyFilter):
    """Entropy of reliable queries at a flat minimum, and a reset if the loss gets too small.

    Args:
        share: How many queries count as reliable, those of lowest entropy; see `filter`.
        filter: "quantile": this share of the batch; "log": all with an entropy below
            share * log N (the official code).
        radius: Length of the step uphill, at whose end the gradient is taken.
        reset_below: Moving average of the loss below which the session resets; None: never.
        normalised_reset: Whether `reset_below` is scaled by log N / log 1000.
        momentum: Momentum of the moving average.
        keep_average: Whether the moving average survives a reset, as in the official code.

    The other arguments are those of `Method`.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.SAR(reset_below=None))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    radius: float = setting(0.05, "official code", "how far uphill to look")
    reset_below: float | None = setting(
        0.2, "official code", "moving loss under which the source is restored; None: never"
    )
    normalised_reset: bool = setting(False, "ours", "scale `reset_below` by log N / log 1000")
    momentum: float = setting(0.9, "official code", "of the moving loss")
    keep_average: bool = setting(
        False, "ours", "True: the official quirk, the small moving loss survives a reset"
    )

    def start(self, gallery: Searchable, device: torch.device) -> float | None:
        """The moving loss, not yet known."""
        return None

    def check_memory(self, memory: float | None, gallery: Searchable) -> None:
        """The moving loss is a number, or not yet known."""
        if memory is not None and not (type(memory) is float and isfinite(memory)):
            raise ValueError(f"the moving loss is {memory!r}, no finite number")

    def gradient(self, step_view: StepView, memory: float | None) -> Update:
        """The slope at the worst nearby point, for the queries that are reliable here and there."""
        entropies = entropy(step_view.now.scores / self.tau)
        limit = self.largest_entropy(entropies, step_view.now.scores.shape[1])
        reliable = entropies <= limit
        if not bool(reliable.any()):
            return Update(None)
        (uphill,) = step_view.now.gradients(entropies[reliable].mean())
        reach = self.radius / (norm(uphill) + 1e-12)
        nearby = {n: step_view.params[n] + reach * slope for n, slope in uphill.items()}
        there = step_view.at({**step_view.params, **nearby})
        again = entropy(there.scores / self.tau)[reliable]
        still = again[again < limit]
        if len(still) == 0:
            return Update(None)
        loss = still.mean()
        average = float(loss.detach())
        if memory is not None:
            average = self.momentum * memory + (1 - self.momentum) * average
        if self._too_small(average, step_view.now):
            return Update(None, restart=True, memory=average if self.keep_average else None)
        return Update(there.gradients(loss)[0], memory=average)

    def _too_small(self, average: float, forward: Forward) -> bool:
        if self.reset_below is None:
            return False
        limit = self.reset_below
        if self.normalised_reset:
            limit = limit * log(forward.scores.shape[1]) / log(1000)
        return average < limit
