"""Recall over temperatures: Tent with and without prediction refinement, and REST."""

from __future__ import annotations

from queryshift.methods.frozen import Frozen
from queryshift.methods.specs import Spec
from queryshift.support.progress import track

from .charts import Curves, Line
from .experiment import Experiment, Request

TEMPERATURES = (1e-4, 1e-3, 5e-3, 0.01, 0.02, 0.05, 0.1)
METHODS = {
    "Tent": "tent:temperature={}",
    "Tent, refined": "tent:temperature={}+refined",
    "REST": "rest:temperature={}",
}


def compute(request: Request) -> Curves:
    """Recall at 1 of every method at every temperature."""
    experiment = Experiment.open(request)
    cells = [(name, one) for name in METHODS for one in TEMPERATURES]
    found = {
        (name, one): experiment.recall(Spec.read(METHODS[name].format(one)).make())
        for name, one in track(cells, "temperatures")
    }
    frozen = experiment.recall(Frozen())
    lines = [Line(name, TEMPERATURES, [found[name, t] for t in TEMPERATURES]) for name in METHODS]
    lines.append(Line("source model", TEMPERATURES, [frozen] * len(TEMPERATURES)))
    spans = {line.name: (min(line.y), max(line.y)) for line in lines}
    ranges = "; ".join(
        f"{line.name} {min(line.y):.1f} to {max(line.y):.1f} % (best at {best(line):g})"
        for line in lines[: len(METHODS)]
    )
    (plain_low, plain_high), (low, high) = spans["Tent"], spans["Tent, refined"]
    return Curves(
        title="Does prediction refinement make the temperature matter less?",
        about=experiment.about,
        claim="Refinement steadies the choice of a temperature and lifts recall.",
        holds=high - low < plain_high - plain_low and low > plain_low and high > plain_high,
        finding=f"recall at 1 over temperatures 0.0001 to 0.1: {ranges}.",
        x_label="temperature of the prediction (logarithmic)",
        lines=lines,
        log_x=True,
    )


def best(line: Line) -> float:
    """The place of a line's highest value."""
    return max(zip(line.y, line.x, strict=True))[1]
