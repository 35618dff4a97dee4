"""Charts drawn with matplotlib, and the files of a figure: its numbers, its image, or both."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import Any

from queryshift.errors import BadInput
from queryshift.lab.evaluation.pages.method_legend import colours_of
from queryshift.support.optional import need

from . import FIGURES
from .charts import Chart, Clouds, Curves, Grid, Histogram, read, to_json
from .experiment import Request

FORMATS = (".png", ".svg", ".pdf")
SIZE, DOTS_PER_INCH, CAPTION = (7.2, 4.8), 110, 118
HEADROOM = 0.1  # for the legend
FEW = 10  # places on an axis that are named one by one
MARKERS, DASHES = "osD^vX", ("-", "--", "-.", ":")
FAINT = (":", "--", "-.", "-")  # of marks, which stand in the legend


def check(path: Path) -> None:
    """Refuse a file that cannot be drawn, before the long computation."""
    if path.suffix not in FORMATS:
        known = ", ".join((*FORMATS, ".json"))
        raise BadInput(f'"{path}" is no format of a figure: give a file that ends in {known}.')
    if not path.parent.is_dir():
        raise BadInput(f'there is no folder "{path.parent}": make it first.')
    need("matplotlib", "figures", "drawing a figure")


def draw(chart: Chart, path: Path) -> None:
    """Draw a chart to a file; the suffix is the format."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=DOTS_PER_INCH, layout="constrained")
    DRAW[type(chart)](chart, figure)
    figure.suptitle(chart.title, fontsize=12, fontweight="bold")
    figure.supxlabel(f"{_wrapped(chart.verdict)}\n{_wrapped(chart.about)}", fontsize=7.5)
    figure.savefig(path)


def _wrapped(text: str) -> str:
    """Lines of a caption; a number keeps its percent sign."""
    return fill(text.replace(" %", "\N{NO-BREAK SPACE}%"), CAPTION)


def _colours(names: list[str]) -> list[str]:
    return [colour.light for colour in colours_of(names)]


def _curves(chart: Curves, figure: Any) -> None:
    axes = figure.subplots()
    colours = _colours([line.name for line in chart.lines])
    styles = zip(chart.lines, colours, cycle(MARKERS), cycle(DASHES), strict=False)
    for line, colour, marker, dash in styles:
        axes.plot(line.x, line.y, dash, color=colour, marker=marker, markersize=4, label=line.name)
    for mark, dash in zip(chart.marks, cycle(FAINT), strict=False):
        axes.axvline(mark.x, color="#666666", linewidth=1.2, linestyle=dash, label=mark.text)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0), high + HEADROOM * (high - min(low, 0)))
    places = sorted({x for line in chart.lines for x in line.x})
    if chart.log_x:
        axes.set_xscale("log")
        axes.minorticks_off()
    if chart.log_x or len(places) <= FEW:
        axes.set_xticks(places, [f"{place:g}" for place in places], fontsize=8)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, framealpha=0.9)


def _histogram(chart: Histogram, figure: Any) -> None:
    axes = figure.subplots()
    colours = _colours(list(chart.shares))
    for (name, shares), colour in zip(chart.shares.items(), colours, strict=True):
        axes.stairs(shares, chart.edges, fill=True, alpha=0.3, color=colour)
        axes.stairs(shares, chart.edges, color=colour, linewidth=1.5, label=name)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _clouds(chart: Clouds, figure: Any) -> None:
    panels = figure.subplots(1, len(chart.panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (name, groups) in zip(panels, chart.panels.items(), strict=True):
        styles = zip(groups.items(), _colours(list(groups)), cycle(MARKERS), strict=False)
        for (group, points), colour, marker in styles:
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, s=6, alpha=0.5, color=colour, marker=marker, label=group)
            axes.scatter(
                *(sum(side) / len(side) for side in (x, y)),
                s=90,
                color=colour,
                marker="P",
                edgecolor="black",
                label=f"centre of the {group}",
            )
        axes.set(title=name, xticks=[], yticks=[])
    panels[0].legend(fontsize=7.5, loc="best", framealpha=0.9)


def _grid(chart: Grid, figure: Any) -> None:
    axes = figure.subplots()
    axes.axis("off")
    text = [
        [f"{value:.3g}  ({ratio:.2f}x)" for value, ratio in zip(values, ratios, strict=True)]
        for values, ratios in zip(chart.rows.values(), chart.ratios.values(), strict=True)
    ]
    table = axes.table(
        text,
        rowLabels=list(chart.rows),
        colLabels=list(chart.columns),
        cellLoc="center",
        bbox=(0, 0.05, 1, 0.85),
    )
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    axes.set_title(chart.unit, fontsize=9)


DRAW: dict[type[Chart], Callable[[Any, Any], None]] = {
    Curves: _curves,
    Histogram: _histogram,
    Clouds: _clouds,
    Grid: _grid,
}


NUMBERS = ".json"


def write_figure(
    name: str, request: Request, out: Path, numbers: bool = False, given: Path | None = None
) -> tuple[Chart, list[Path]]:
    """Compute a figure and write it; the suffix of `out` is the format, ".json" its numbers.

    `numbers` writes them beside the drawing too; `given` are numbers that exist already.
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
