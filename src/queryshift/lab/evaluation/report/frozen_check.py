"""Is the frozen model the paper's? Its recall on uncorrupted queries, against the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean
from typing import NamedTuple

from queryshift.errors import BadInput

from ..benchmarks import BENCHMARKS
from ..results import Cell
from .paper_numbers import paper_value
from .result_tables import Column, metric_of

TOLERANCE = 0.3  # in percent of queries
_FROZEN = "frozen"
CAUSES = (
    "another checkpoint: general2* and fashion-gen start from the pre-trained model, "
    "the -o, -d and x2y rows from one fine-tuned on their source",
    "another picture size or interpolation: BLIP reads 384 pixels, bicubic, square, uncropped",
    "captions read otherwise: all in lower case, at most 35 tokens, the first five per COCO image",
    "another split: Karpathy's test (COCO 5,000 images, Flickr 1,000), Nocaps by domain",
    "a matching head that re-ranks: these rows are cosine alone",
    "other queries than the paper's: CIRR's answers are public for val alone, the paper's are "
    "test1's; its RSICD, RSITMD and VGGSound are not the published lists",
    "reduced precision, fewer queries (--queries), or some that could not be read",
)


class Comparison(NamedTuple):
    """A frozen row and the paper's."""

    benchmark: str
    metric: str
    ours: float
    paper: float

    @property
    def difference(self) -> float:
        """Ours less the paper's."""
        return self.ours - self.paper

    def __str__(self) -> str:
        """One line for people."""
        numbers = f"ours {self.ours:.1f}, paper {self.paper:.1f}, {self.difference:+.1f}"
        return f"{self.benchmark}, {self.metric}: {numbers}"


def check_base(
    cells: Sequence[Cell], tolerance: float = TOLERANCE, model: str = ""
) -> list[Comparison]:
    """The frozen uncorrupted rows beside the paper's; an error if they differ, with usual causes.

    The list is empty where the paper has no such row: its corruptions were unseeded, so corrupted
    rows are never compared.
    """
    comparisons = list(_comparisons(cells, model))
    wrong = [comparison for comparison in comparisons if abs(comparison.difference) > tolerance]
    if wrong:
        rows = "\n".join(f"  {comparison}" for comparison in wrong)
        causes = "\n".join(f"  - {cause}" for cause in CAUSES)
        raise BadInput(
            f"the frozen model differs from the paper's by more than {tolerance}, so that nothing "
            f"built on it can be compared:\n{rows}\nWhat usually causes it:\n{causes}"
        )
    return comparisons


def _comparisons(cells: Sequence[Cell], model: str) -> Iterator[Comparison]:
    natural = {name for name, row in BENCHMARKS.items() if not row.corrupted}
    frozen = [c for c in cells if c.method == _FROZEN and c.benchmark in natural]
    for benchmark in dict.fromkeys(cell.benchmark for cell in frozen):
        own = [cell for cell in frozen if cell.benchmark == benchmark]
        column = Column(benchmark, "", metric_of(benchmark))
        value = paper_value(own[0], column, model)
        if value is not None:
            ours = mean(cell.measure(column.metric) for cell in own)
            yield Comparison(benchmark, column.metric, ours, value.value)
