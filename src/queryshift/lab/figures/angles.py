"""Angles of the applied gradients to the general direction, along a stream of mixed shifts."""

from __future__ import annotations

from dataclasses import dataclass

from queryshift.methods.base import Method
from queryshift.methods.rest import REST
from queryshift.support.progress import track

from .charts import Curves, Line
from .experiment import DIVERSE, Experiment, Request


@dataclass(frozen=True)
class Watched:
    """One method along the stream."""

    answered: list[int]  # queries so far
    angles: list[float]  # degrees, mean over a batch's steps
    recall: float

    @property
    def mean(self) -> float:
        """Mean angle in degrees."""
        return sum(self.angles) / len(self.angles)


def compute(request: Request) -> Curves:
    """The angle of each batch, for Tent and REST with and without decoupling."""
    experiment = Experiment.open(request, DIVERSE)
    methods = {
        "Tent": experiment.method("tent"),
        "Tent, decoupled": experiment.method("tent+decoupled"),
        "REST": REST(),
        "REST, decoupled": REST(decouple=True),
    }
    paths = {name: watched(experiment, one) for name, one in track(methods.items(), "angles")}
    tent, tent_kept, rest, rest_kept = paths.values()
    means = "; ".join(
        f"{name} {one.mean:.1f} degrees, {one.recall:.1f} %" for name, one in paths.items()
    )
    return Curves(
        title="Do the gradients fight what the source model knows?",
        about=experiment.about,
        claim="Decoupling brings the angle down to 90 degrees, and recall rises.",
        holds=max(tent_kept.mean, rest_kept.mean) <= 90
        and tent_kept.recall > tent.recall
        and rest_kept.recall > rest.recall,
        finding=f"mean angle and recall at 1: {means}.",
        x_label="queries answered",
        y_label="angle to the general direction (degrees)",
        lines=[Line(name, one.answered, one.angles) for name, one in paths.items()],
    )


def watched(experiment: Experiment, method: Method) -> Watched:
    """One method over the stream, its applied gradient watched."""
    outcome = experiment.run(experiment.session(method, watch_angle=True))
    so_far, answered, angles = 0, [], []
    for batch in outcome.history:
        so_far += batch.queries
        if batch.applied_angle is not None:
            answered.append(so_far)
            angles.append(batch.applied_angle)
    return Watched(answered, angles, outcome.recall())
