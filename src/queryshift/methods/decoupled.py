"""Gradient decoupling (Section 3.6): never step against what the source model knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from queryshift.retrieval.forward import Forward
from queryshift.retrieval.refinement import Duplicates, RefinedPrediction, refined

from .base import StepView, Update, setting
from .gradients import angle, decouple, decouple_each, norm, scale
from .losses import divergence
from .wrapper import Wrapper

WeightOn = Literal["gradient", "lr"]
Over = Literal["all", "tensor"]
STILL = 1e-6  # a general direction this much shorter than the domain's is rounding
NEAR = 1e-8  # so is a divergence below this


def drift(source: Forward, prediction: RefinedPrediction) -> Tensor:
    """D_KL: how far the refined prediction has moved from the source's, on the same columns."""
    with torch.no_grad():
        before = prediction.similarities_in(source) / prediction.temperature
    return divergence(before, prediction.logits)


def decoupled(
    step_view: StepView,
    domain: Update,
    moved: Tensor,
    weight_on: WeightOn = "gradient",
    over: Over = "all",
) -> Update:
    """The update without its part against the general direction, weighted by exp(-D_KL)."""
    if domain.gradient is None:
        return domain
    (general,) = step_view.now.gradients(moved)
    kept = (decouple if over == "all" else decouple_each)(domain.gradient, general)
    still = (norm(general) <= STILL * norm(domain.gradient)) | (moved.detach() < NEAR)
    gradient = {name: torch.where(still, g, kept[name]) for name, g in domain.gradient.items()}
    weight = torch.exp(-moved.detach())
    measures = {
        "drift": moved.detach(),
        "domain_angle": angle(domain.gradient, general),
        "applied_angle": angle(gradient, general),
    }
    if weight_on == "gradient":
        return replace(domain, gradient=scale(gradient, weight), measures=measures)
    return replace(domain, gradient=gradient, rate=domain.rate * weight, measures=measures)


@dataclass(frozen=True, kw_only=True)
class Decoupled(Wrapper):
    """Any method, without the part of its gradient that points away from the source model.

    Args:
        neighbours: K of REST's prediction, on which the drift is measured.
        drift_temperature: Temperature of that prediction.
        duplicates: "keep": in that prediction, a candidate counts once for each query that lists
            it; "merge": once.
        weight_on: Whether exp(-D) multiplies the "gradient" (AdamW cancels most of this) or the
            "lr".
        over: Whether "all" parameters are decoupled as one vector, or each "tensor" alone.

    Learning rate, temperature and optimiser are those of the wrapped method.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.Decoupled(qs.Tent()))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    neighbours: int = setting(10, "paper", "K of the prediction that drift is measured on")
    drift_temperature: float = setting(0.02, "paper", "of that prediction")
    duplicates: Duplicates = setting("keep", "ours", "copies in that prediction")
    weight_on: WeightOn = setting("gradient", "paper", "where exp(-D_KL) acts; AdamW hides most")
    over: Over = setting("all", "paper", '"tensor" decouples each tensor alone')

    def check(self) -> None:
        """Refuse settings that cannot work."""
        super().check()
        self._must("neighbours", self.neighbours >= 1, "at least 1")
        self._must("drift_temperature", self.drift_temperature > 0, "more than 0")

    def gradient(self, step_view: StepView, memory: Any) -> Update:
        """The wrapped method's, decoupled; at the source there is nothing to decouple from."""
        domain = self.method.gradient(step_view, memory)
        if step_view.at_source or domain.gradient is None:
            return domain
        forward = self.method.view(step_view.now, memory)
        prediction = refined(forward, self.neighbours, self.drift_temperature, self.duplicates)
        moved = drift(self.method.view(step_view.source, memory), prediction)
        return decoupled(step_view, domain, moved, self.weight_on, self.over)
