"""Recall of REST over K, the number of candidates in a query's neighbourhood."""

from __future__ import annotations

from queryshift.methods.rest import REST
from queryshift.support.progress import track

from .charts import Curves, Line, Mark
from .experiment import Experiment, Request

COUNTS = (1, 2, 5, 10, 20, 50)
PAPER = 10


def compute(request: Request) -> Curves:
    """Recall at 1 of REST for every K."""
    experiment = Experiment.open(request)
    recalls = [experiment.recall(REST(neighbours=count)) for count in track(COUNTS, "neighbours")]
    at = dict(zip(COUNTS, recalls, strict=True))
    best = max(at, key=lambda one: at[one])
    return Curves(
        title="How many candidates of each query (K) does REST need?",
        about=experiment.about,
        claim="K = 10 is a good choice, better than very few.",
        holds=at[PAPER] > at[1] and at[PAPER] >= at[best] - 1,
        finding=(
            f"recall at 1 is {at[1]:.1f} % with K = 1, {at[PAPER]:.1f} % with K = 10, and at best "
            f"{at[best]:.1f} % (K = {best})."
        ),
        x_label="K (logarithmic)",
        lines=[Line("REST", COUNTS, recalls)],
        marks=[Mark(PAPER, "the paper's K")],
        log_x=True,
    )
