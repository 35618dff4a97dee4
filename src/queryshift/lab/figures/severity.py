"""Recall over the five severities of corruption, for a few methods."""

from __future__ import annotations

from statistics import fmean

from queryshift.errors import BadInput
from queryshift.lab.corruptions import REPRESENTATIVE, SEVERITIES
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.corrupted_queries import needs_translator
from queryshift.support.progress import track

from .charts import Curves, Line
from .experiment import COMPARED, Experiment, Request, shift_in_words


def compute(request: Request) -> Curves:
    """Mean recall at 1 over shifts, at every severity, for every method."""
    if request.benchmark in BENCHMARKS and not BENCHMARKS[request.benchmark].corrupted:
        raise BadInput(
            f"{request.benchmark} corrupts nothing, so it has no severities: choose one that does."
        )
    experiment = Experiment.open(request)
    shifts = shifts_of(experiment)
    cells = [(shift, level) for level in SEVERITIES for shift in shifts]
    found: dict[tuple[str, int], list[float]] = {}
    for shift, level in track(cells, "severities"):
        under = experiment.under(shift, level)
        for key, name in COMPARED.items():
            found.setdefault((name, level), []).append(under.recall(experiment.method(key)))
    lines = [
        Line(name, SEVERITIES, [fmean(found[name, level]) for level in SEVERITIES])
        for name in COMPARED.values()
    ]
    loss = {line.name: line.y[0] - line.y[-1] for line in lines}
    better = all(
        rest >= other for line in lines for rest, other in zip(lines[-1].y, line.y, strict=True)
    )
    words = " and ".join(map(shift_in_words, shifts))
    falls = ", ".join(f"{name} {one:.1f}" for name, one in loss.items())
    at_most = ", ".join(f"{line.name} {line.y[-1]:.1f}" for line in lines)
    return Curves(
        title="How does recall fall as the corruption becomes more severe?",
        about=experiment.described(f"{words} at severities 1 to 5"),
        claim="REST is best at every severity and falls more slowly.",
        holds=better and loss["REST"] == min(loss.values()),
        finding=f"recall at 1 at severity 5: {at_most} %; points lost from severity 1: {falls}.",
        x_label="severity",
        lines=lines,
    )


def shifts_of(experiment: Experiment) -> tuple[str, ...]:
    """The requested shift, or one of every category."""
    if experiment.request.shift is not None or experiment.row.diverse:
        return (experiment.shift,)
    row = experiment.row
    typical = set(row.shifts).intersection(REPRESENTATIVE.get(row.query, {}).values())
    named = (name for name in row.shifts if not typical or name in typical)
    translated = experiment.request.choices.translator
    return tuple(name for name in named if translated or not needs_translator(row, name))
