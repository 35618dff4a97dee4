"""Recommend a method from labelled queries, or say how many clicks would decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, comb, log10

from queryshift.lab.evaluation.results import Cell
from queryshift.methods.specs import DEFAULT

LEVEL = 0.05  # of a test
DECISIVE_CLICKS = 72
"""Wins and losses that find a model which wins twice as often, with a power of 80 %."""

FEWEST_LABELS = 30  # labelled queries, below which the verdict is "cannot tell"
MOST_QUERIES = 100_000  # with more, nobody needs to know
AS_CODE = {
    "frozen": "the model as it is",
    DEFAULT: "the default session, qs.Session({}, gallery)",
    "frozen+hubs": "hub correction alone, qs.Session({}, gallery, qs.Frozen(), hubs=qs.Hubs())",
}
"""A method in words and in code; {} is the encoder."""


@dataclass(frozen=True)
class Row:
    """One method: its measures in percent, and its recall at 1 beside the frozen model's."""

    method: str
    measures: dict[str, float]
    difference: float  # points of recall at 1
    low: float  # of the 95 % interval of the difference
    high: float
    p: float
    seconds_per_query: float
    forwards_per_query: float


def recommended(
    rows: Sequence[Row], cells: Sequence[Cell], encoder: str = "encoder", clicks: bool = False
) -> tuple[str, str]:
    """The method to use, and a sentence that says so; rows and cells have the frozen model first.

    The default where it is better than the frozen model beyond chance, unless another method is
    better than the default beyond chance; else the best that is better than the frozen model.
    Fewer than `FEWEST_LABELS` labelled queries decide nothing.

    Args:
        rows: the table.
        cells: what it was made from.
        encoder: Python for the encoder of the queries.
        clicks: whether the labels are clicks, which need not be right.
    """
    labelled = cells[0].queries
    if len(rows) > 1 and labelled < FEWEST_LABELS:
        queries = "query with a" if labelled == 1 else "queries with a"
        return rows[0].method, (
            f"Cannot tell: {labelled} {queries} {label(clicks)} "
            f"{'is' if labelled == 1 else 'are'} too few, at least {FEWEST_LABELS} are needed. "
            "Keep the model as it is until then."
        )
    by_method = {cell.method: cell for cell in cells}
    sure = sorted(
        (row for row in rows[1:] if row.low > 0), key=lambda row: -row.measures["recall@1"]
    )
    if not sure:
        return rows[0].method, _keep(rows, by_method)
    chosen = next((row for row in sure if row.method == DEFAULT), sure[0])
    for row in sure:
        if _better(by_method[row.method], by_method[chosen.method]):
            chosen = row
            break
    before, after = (row.measures["recall@1"] for row in (rows[0], chosen))
    return chosen.method, (
        f"Use {in_words(chosen.method, encoder)}: its top-1 result is "
        f"{'a clicked one' if clicks else 'right'} for {after:.1f} % of the queries, the model as "
        f"it is has {before:.1f} %. That is {_points(chosen)}."
    )


def _keep(rows: Sequence[Row], cells: dict[str, Cell]) -> str:
    if len(rows) == 1:
        return "Only the model as it is was asked: name a method to compare it with."
    best = max(rows[1:], key=lambda row: row.measures["recall@1"])
    if best.difference <= 0:
        return (
            "Keep the model as it is: nothing is better. The best of the others, "
            f"{best.method}, has {_points(best)}."
        )
    first, second = (cells[one].ranks[:, 0] == 1 for one in (rows[0].method, best.method))
    needed = queries_needed(float((first != second).mean()), best.difference / 100)
    settle = (
        f"about {rounded(needed):,} labelled queries would settle it"
        if needed <= MOST_QUERIES
        else "no practical number of labels would tell them apart"
    )
    return (
        f"Keep the model as it is for now: {best.method} has {_points(best)}, which may be chance; "
        f"{settle}."
    )


def label(clicks: bool) -> str:
    """The kind of label, in words."""
    return "click" if clicks else "right answer"


def in_words(method: str, encoder: str) -> str:
    """A method in words, and in code where that is short."""
    return AS_CODE.get(method, f'the method "{method}"').format(encoder)


def _points(row: Row) -> str:
    return f"{row.difference:+.1f} points (95 % interval {row.low:+.1f} to {row.high:+.1f})"


def _better(one: Cell, other: Cell) -> bool:
    """Whether one has more right top-1 results beyond chance, on the same queries."""
    first, second = (cell.ranks[:, 0] == 1 for cell in (one, other))
    wins, losses = int((first & ~second).sum()), int((second & ~first).sum())
    return wins > losses and sign_test(wins, losses) < LEVEL


def sign_test(wins: int, losses: int) -> float:
    """The two-sided p-value of the sign test."""
    count, most = wins + losses, max(wins, losses)
    tail = sum(comb(count, place) for place in range(most, count + 1))
    return min(1.0, float(2 * tail / 2**count))


def queries_needed(differ: float, gain: float) -> int:
    """Queries with labels to find a gain, where one model alone is right for a share `differ`.

    McNemar's test, two-sided, by Connor's formula (1987).
    """
    spread = max(differ - gain**2, 0.0) ** 0.5
    return ceil(float(((1.96 * differ**0.5 + 0.84 * spread) / gain) ** 2))


def rounded(count: float) -> int:
    """A count of at least 1 to two digits, upwards: nobody needs to read a third."""
    step = int(10 ** max(0, int(log10(count)) - 1))
    return ceil(count / step) * step
