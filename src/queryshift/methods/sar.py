"""SAR (Niu et al., ICLR 2023): entropy of reliable queries, at a flat minimum, with recovery."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Literal

import torch
from torch import Tensor

from ..galleries import Searchable
from ..gradients import norm
from ..losses import entropy
from ..retrieval import Look, Retrieval
from .base import Method, Update, setting


@dataclass(frozen=True, kw_only=True)
class SAR(Method):
    """Look a little uphill, take the slope there, and start again when all looks too easy."""

    share: float = setting(0.4, "TCR's code", "of the batch, or of log N, that counts as reliable")
    filter: Literal["quantile", "log"] = setting(
        "quantile", "TCR's code", '"log" is the official share * log N'
    )
    radius: float = setting(0.05, "official code", "how far uphill to look")
    reset_below: float | None = setting(
        0.2, "official code", "moving loss under which the source is restored; None: never"
    )
    normalised_reset: bool = setting(False, "ours", "scale `reset_below` by log N / log 1000")
    momentum: float = setting(0.9, "official code", "of the moving loss")
    keep_average: bool = setting(
        False, "ours", "True: the official quirk, the small moving loss survives a reset"
    )

    def check(self) -> None:
        """A share lies between 0 and 1."""
        super().check()
        self._must("share", 0 < self.share <= 1, "more than 0, and at most 1")

    def start(self, gallery: Searchable, device: torch.device) -> float | None:
        """The moving loss, not yet known."""
        return None

    def gradient(self, look: Look, memory: float | None) -> Update:
        """The slope at the worst nearby point, for the queries that are reliable here and there."""
        entropies = entropy(look.now.scores / self.tau)
        limit = self._limit(entropies, look.now)
        reliable = entropies <= limit
        if not bool(reliable.any()):
            return Update(None)
        (uphill,) = look.now.pull(entropies[reliable].mean())
        reach = self.radius / (norm(uphill) + 1e-12)
        nearby = {n: look.params[n] + reach * slope for n, slope in uphill.items()}
        there = look.at({**look.params, **nearby})
        again = entropy(there.scores / self.tau)[reliable]
        still = again[again < limit]
        if len(still) == 0:
            return Update(None)
        loss = still.mean()
        average = float(loss.detach())
        if memory is not None:
            average = self.momentum * memory + (1 - self.momentum) * average
        if self.reset_below is not None and average < self._reset_limit(look.now):
            return Update(None, restart=True, memory=average if self.keep_average else None)
        return Update(there.pull(loss)[0], memory=average)

    def _limit(self, entropies: Tensor, seen: Retrieval) -> Tensor | float:
        if self.filter == "log":
            return self.share * log(seen.scores.shape[1])
        sure = max(1, int(self.share * len(entropies)))
        return torch.kthvalue(entropies.detach(), sure).values

    def _reset_limit(self, seen: Retrieval) -> float:
        limit = 0.0 if self.reset_below is None else self.reset_below
        return limit * log(seen.scores.shape[1]) / log(1000) if self.normalised_reset else limit
