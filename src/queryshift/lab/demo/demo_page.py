"""The demo as one HTML file that opens from disk and needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from random import Random
from typing import NamedTuple

from queryshift.lab.evaluation.pages import render
from queryshift.lab.evaluation.pages.method_legend import legend
from queryshift.lab.evaluation.pages.page_items import Part, parts
from queryshift.lab.evaluation.pages.svg_curves import Chart

from .run_demo import Demo, Stream

EXAMPLES = 6
SMOOTHED = 4  # batches behind each point of the recall curve


MEASURES = ("spread", "gap", "similarity", "entropy", "reliable")
"""Statistics of a batch that the page draws; `templates/demo.html` explains them."""


class Answer(NamedTuple):
    """One method's top-1 result, and the rank of its best right answer."""

    method: str
    parts: list[Part]
    rank: int


class Example(NamedTuple):
    """One query: clean, shifted, and each method's answer."""

    clean: list[Part]
    asked: list[Part]
    answers: list[Answer]
    right: list[Part]  # the right answer, where no method put it first


def html(demo: Demo) -> str:
    """The page's HTML."""
    return render(
        "demo",
        demo=demo,
        **legend(demo.plan.methods),
        right=right_along(demo.shifted),
        smoothed=min(SMOOTHED * demo.plan.batch, demo.plan.queries),
        examples=examples(demo),
        measures=list(measures_along(demo)),
    )


def right_along(streams: tuple[Stream, ...]) -> Chart:
    """How often the top-1 result was right in the latest batches, as the stream goes on."""
    return Chart(
        {stream.method: _latest_right(stream) for stream in streams},
        _asked(streams[0]),
        bounds=(0.0, 100.0),
    )


def measures_along(demo: Demo) -> Iterator[tuple[str, Chart]]:
    """Each measure along the shifted stream, with its mean for clean queries as they are."""
    for measure in MEASURES:
        seen = {stream.method: _values(stream, measure) for stream in demo.shifted}
        lines = {method: values for method, values in seen.items() if values}
        clean = _values(demo.clean[0], measure)
        if lines:
            level = sum(clean) / len(clean) if clean else None
            yield measure, Chart(lines, _asked(demo.shifted[0]), level)


def examples(demo: Demo) -> list[Example]:
    """Queries drawn from the last quarter of the stream, when there has been time to adapt."""
    order = demo.shifted[0].result.order.tolist()
    late = order[3 * len(order) // 4 :]
    drawn = Random(demo.plan.seed).sample(late, min(EXAMPLES, len(late)))
    return [_example(demo, row) for row in drawn]


def _example(demo: Demo, row: int) -> Example:
    data, answers = demo.dataset, []
    for stream in demo.shifted:
        first = data.candidates[int(stream.result.top[row, 0])]
        rank = int(stream.result.ranks[row])
        answers.append(Answer(stream.method, parts(data.gallery, first), rank))
    missed = all(answer.rank > 1 for answer in answers)
    best = data.candidates[data.matches[row][0]]
    return Example(
        clean=parts(data.query, data.queries[row]),
        asked=parts(data.query, demo.queries[row]),
        answers=answers,
        right=parts(data.gallery, best) if missed else [],
    )


def _latest_right(stream: Stream) -> list[float]:
    """Percent of right top-1 results in each batch and those just before it."""
    right = (stream.result.ranks[stream.result.order] == 1).double()
    ends = _asked(stream)
    starts = [0, *ends][: len(ends)]
    first = [starts[max(0, batch - SMOOTHED + 1)] for batch in range(len(ends))]
    return [100 * float(right[a:b].mean()) for a, b in zip(first, ends, strict=True)]


def _values(stream: Stream, measure: str) -> list[float]:
    """A measure batch by batch; nothing if the method does not have it."""
    values = [getattr(seen, measure) for seen in stream.result.history]
    return [] if None in values else [value for value in values if value is not None]


def _asked(stream: Stream) -> list[int]:
    return list(accumulate(seen.queries for seen in stream.result.history))
