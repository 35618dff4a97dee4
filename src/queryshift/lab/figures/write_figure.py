"""From a figure's name to its files: the numbers, the picture, or both."""

from __future__ import annotations

from pathlib import Path

from . import FIGURES
from .charts import Chart, read, to_json
from .experiment import Request
from .plotting import check, draw

NUMBERS = ".json"


def write_figure(
    name: str, request: Request, out: Path, numbers: bool = False, given: Path | None = None
) -> tuple[Chart, list[Path]]:
    """Compute a figure and write it; the suffix of `out` is the format, ".json" its numbers.

    `numbers` writes them beside the picture too; `given` are numbers that exist already.
    """
    drawn = out.suffix != NUMBERS
    if drawn:
        check(out)  # before the long part
    compute = FIGURES[name]
    chart = compute(request) if given is None else read(given)
    written = [out]
    if drawn:
        draw(chart, out)
    if numbers or not drawn:
        written = list(dict.fromkeys([out, out.with_suffix(NUMBERS)]))
        written[-1].write_text(to_json(chart) + "\n", encoding="utf-8")
    return chart, written
