"""Figures as plain values: numbers, labels, and the paper's claim."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from queryshift.media.item_reading import decoding


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart, the paper's claim, and whether it holds here."""

    title: str
    about: str  # benchmark, shift, severity, queries, seed
    claim: str
    holds: bool
    finding: str  # one sentence with the numbers that decide

    @property
    def verdict(self) -> str:
        """The claim, yes or no, and the numbers."""
        return f"{self.claim} {'Yes' if self.holds else 'No'}: {self.finding}"


@dataclass(frozen=True)
class Line:
    """One curve."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Mark:
    """A place on the x axis that is worth a word."""

    x: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Curves(Chart):
    """Lines over one axis."""

    x_label: str
    y_label: str = "recall at 1 (%)"
    lines: Sequence[Line]
    marks: Sequence[Mark] = ()
    log_x: bool = False


@dataclass(frozen=True, kw_only=True)
class Histogram(Chart):
    """Shares of several groups in the same bins."""

    x_label: str
    y_label: str
    edges: Sequence[float]  # one more than bins
    shares: Mapping[str, Sequence[float]]  # percent of a group in each bin


@dataclass(frozen=True, kw_only=True)
class Clouds(Chart):
    """Panels of points in the plane, all in the same coordinates."""

    panels: Mapping[str, Mapping[str, Sequence[Sequence[float]]]]  # panel, group, points (n, 2)


@dataclass(frozen=True, kw_only=True)
class Grid(Chart):
    """A table of numbers, each with its ratio to the first row."""

    unit: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[float]]
    ratios: Mapping[str, Sequence[float]]


KINDS: dict[str, type[Chart]] = {kind.__name__: kind for kind in (Curves, Histogram, Clouds, Grid)}


def to_json(chart: Chart) -> str:
    """The chart as one JSON object, a line for each field, numbers rounded to six digits."""
    fields = {"kind": type(chart).__name__, **_rounded(asdict(chart))}
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def from_json(text: str) -> Chart:
    """The chart that `to_json` wrote."""
    found = json.loads(text)
    kind = KINDS[found.pop("kind")]
    for name, part in (("lines", Line), ("marks", Mark)):
        if name in found:
            found[name] = [part(**one) for one in found[name]]
    return kind(**found)


def read(path: Path) -> Chart:
    """The chart in a file."""
    with decoding(path, "the numbers of a figure, as --json writes them"):
        return from_json(path.read_text(encoding="utf-8"))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
