"""The paper's analyses, each computed as plain numbers first and drawn second.

A file per figure, with a `compute`; `charts.py` says what they give, `plotting.py` draws it.
Imports: the product and the laboratory up to `evaluation`. Start with `experiment.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from queryshift.support.registry import Table

if TYPE_CHECKING:
    from .charts import Chart
    from .experiment import Request

FIGURES: Table[Callable[[Request], Chart]] = Table(
    "figure",
    {
        name: f"queryshift.lab.figures.{name}:compute"
        for name in (
            *("scaling", "offset", "tsne", "consistency"),
            *("temperature", "neighbours", "severity", "stream", "angles", "cost"),
        )
    },
)
"""Name to the function that computes it. To add one: write its file, add its name here."""
