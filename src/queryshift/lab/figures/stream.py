"""Recall along the stream: how soon a method helps, and whether it collapses."""

from __future__ import annotations

from queryshift.lab.evaluation.ranks import recall
from queryshift.lab.evaluation.stream_evaluation import StreamResult
from queryshift.support.progress import track

from .charts import Curves, Line
from .experiment import COMPARED, Experiment, Request

WINDOW = 256  # queries


def compute(request: Request) -> Curves:
    """Recall at 1 of the last 256 queries, batch after batch, for every method."""
    experiment = Experiment.open(request)
    outcomes = {
        name: experiment.run(experiment.session(experiment.method(key)))
        for key, name in track(COMPARED.items(), "streams")
    }
    lines = [along(name, one, experiment.row.batch) for name, one in outcomes.items()]
    last = {line.name: line.y[-1] for line in lines}
    whole = ", ".join(f"{name} {one.recall():.1f}" for name, one in outcomes.items())
    ends = ", ".join(f"{name} {one:.1f}" for name, one in last.items())
    return Curves(
        title="How does recall develop along the stream?",
        about=f"{experiment.about}; mean of the last {WINDOW} queries",
        claim="REST gains along the stream and stays ahead of the others.",
        holds=last["REST"] == max(last.values()) and last["REST"] > lines[-1].y[0],
        finding=f"recall at 1 of the last {WINDOW} queries: {ends} %; of the whole: {whole} %.",
        x_label="queries answered",
        y_label=f"recall at 1 of the last {WINDOW} queries (%)",
        lines=lines,
    )


def along(name: str, outcome: StreamResult, batch: int) -> Line:
    """Recall at 1 of the queries that came last, after each batch."""
    came = outcome.ranks[outcome.order]
    ends = [min(end, len(came)) for end in range(batch, len(came) + batch, batch)]
    return Line(name, ends, [recall(came[max(0, end - WINDOW) : end], 1) for end in ends])
