"""What the pages of results share: names of tasks, markdown tables, differences with intervals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from queryshift.lab.evaluation.significance import p_values

Line = dict[str, Any]
DRAWS = 5000
TASK_NAMES = {
    "image": "image to text",
    "text": "text to image",
    "video": "video to audio",
    "audio": "audio to video",
    "composed": "image + text to image",
}


def table(rows: Iterable[list[str]], head: list[str]) -> str:
    """A markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


@dataclass(frozen=True)
class Difference:
    """A difference in points, and its values in bootstrap resamples."""

    points: float
    draws: np.ndarray

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        low, high = np.percentile(self.draws.round(9), (2.5, 97.5))
        return float(low), float(high)

    @property
    def beyond_chance(self) -> bool:
        """Whether p < 0.05."""
        return float(p_values(self.draws)) < 0.05

    def __str__(self) -> str:
        low, high = self.interval
        beyond = "" if self.beyond_chance else ", within chance"
        return f"{self.points:+.2f} ({low:+.2f} to {high:+.2f}{beyond})"
