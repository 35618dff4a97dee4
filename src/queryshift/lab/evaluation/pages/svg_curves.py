"""Curves along a stream, as numbers an SVG can draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 72, 132, 14, 62
FRAME = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "bottom": BOTTOM}
LABEL = 20  # between the names of two lines: the height of their letters on a phone


class Tick(NamedTuple):
    """A tick on an axis and its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """One value after each batch for each method, and the level of clean queries."""

    lines: Mapping[str, Sequence[float]]
    asked: Sequence[int]  # queries so far, batch by batch
    clean: float | None = None
    bounds: tuple[float, float] | None = None

    @property
    def points(self) -> dict[str, str]:
        """Each line's corners as SVG writes them."""
        return {
            method: " ".join(
                f"{self.across(queries):.1f},{self.up(value):.1f}"
                for queries, value in zip(self.asked, values, strict=True)
            )
            for method, values in self.lines.items()
        }

    @property
    def last(self) -> dict[str, tuple[float, float]]:
        """Where each line ends: a dot there shows a line of a single point too."""
        right = self.across(self.asked[-1])
        return {method: (right, self.up(values[-1])) for method, values in self.lines.items()}

    @property
    def ends(self) -> dict[str, float]:
        """The place of each line's name: as near to its line as the other names allow."""
        names = sorted(self.lines, key=lambda one: self.lines[one][-1], reverse=True)
        groups: list[tuple[float, int]] = []  # names that touch: the first's place, how many
        for name in names:
            first, count = self.up(self.lines[name][-1]) + 4, 1
            while groups and _inside(*groups[-1]) + LABEL * groups[-1][1] > _inside(first, count):
                above, others = groups.pop()
                own = others * above + count * (first - LABEL * others)
                first, count = own / (others + count), others + count
            groups.append((first, count))
        places = [_inside(*each) + LABEL * number for each in groups for number in range(each[1])]
        return dict(zip(names, places, strict=True))

    @property
    def rows(self) -> list[Tick]:
        """Ticks of the values."""
        low, high = self.range
        step = _round_step((high - low) / 4)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return [Tick(self.up(n * step), f"{n * step:.6g}") for n in range(first, last + 1)]

    @property
    def columns(self) -> list[Tick]:
        """Ticks of the queries asked so far."""
        quarters = sorted({round(self.asked[-1] * part / 4) for part in range(5)})
        return [Tick(self.across(queries), f"{queries:,}") for queries in quarters]

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and highest value there is room for."""
        if self.bounds is not None:
            return self.bounds
        marks = () if self.clean is None else (self.clean,)
        values = [*marks, *(value for line in self.lines.values() for value in line)]
        room = 0.06 * (max(values) - min(values)) or 0.5
        return min(values) - room, max(values) + room

    def across(self, queries: float) -> float:
        """Pixels from the left."""
        return LEFT + (WIDTH - LEFT - RIGHT) * queries / self.asked[-1]

    def up(self, value: float) -> float:
        """Pixels from the top."""
        low, high = self.range
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)


def _inside(first: float, count: int) -> float:
    """The place of the first of `count` names, so that all fit beside the curves."""
    return max(TOP, min(first, HEIGHT - BOTTOM - LABEL * (count - 1)))


def _round_step(rough: float) -> float:
    """The next round step: 1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= rough)
