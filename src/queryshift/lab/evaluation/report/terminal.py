"""A report on a terminal: shifts in rows, as many methods side by side as the window takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text as RichText

from . import result_tables as tables
from .result_tables import Grid, Report, Table, Text, grid, heading, one_line

_STYLES = {1: "bold", 2: "underline"}
_EDGE = 3  # characters of a column beside its text


def terminal(report: Report) -> str:
    """The report in the colours and width of the terminal, plain if there is none."""
    console = Console()
    with console.capture() as captured:
        show(report, console)
    return captured.get()


def show(report: Report, console: Console) -> None:
    """Print the report; deviations stand in a row of their own, below the averages."""
    for table in report.tables:
        _print(console, heading(table), "bold")
        for part in _fitting(_upright(table), console.width):
            console.print(_dressed(part))
        for note in table.notes:
            _print(console, note, "dim")
        console.print()
    for line in (*report.legend, *report.notes):
        _print(console, line)


def _print(console: Console, text: str, style: str = "") -> None:
    """Print text as it is: no markup in it, no control characters."""
    console.print(RichText(one_line(text), style))


def _upright(table: Table) -> Grid:
    """Shifts in rows, then the averages, then their deviations if there are any."""
    shown = grid(table).transposed()
    spreads = [Text(text.spread) for text in shown.rows[-1][1:]]
    if not any(text.text for text in spreads):
        return shown
    return replace(shown, rows=(*shown.rows, (Text("over seeds"), *spreads)))


def _fitting(shown: Grid, width: int) -> Iterator[Grid]:
    """The grid in parts no wider than the window, each with the names of the rows."""
    lines = [[Text(name) for name in shown.header], *shown.rows]
    wide = [max(len(_plain(row[at])) for row in lines) + _EDGE for at in range(len(lines[0]))]
    part: list[int] = []
    for columns in _methods(shown.header):
        if part and wide[0] + sum(wide[at] for at in part + columns) >= width:
            yield _only(shown, part)
            part = []
        part += columns
    yield _only(shown, part)


def _methods(header: tuple[str, ...]) -> list[list[int]]:
    """The columns of each method: its own, and the paper's beside it."""
    beside = (tables.PAPER, tables.DIFFERENCE)
    starts = [at for at, name in enumerate(header) if at and name not in beside]
    return [list(range(*ends)) for ends in pairwise([*starts, len(header)])]


def _only(shown: Grid, columns: list[int]) -> Grid:
    kept = [0, *columns]
    rows = tuple(tuple(row[at] for at in kept) for row in shown.rows)
    return Grid(shown.title, tuple(shown.header[at] for at in kept), rows)


def _dressed(shown: Grid) -> RichTable:
    table = RichTable(box=SIMPLE_HEAD)
    for at, name in enumerate(shown.header):
        table.add_column(RichText(one_line(name)), justify="right" if at else "left", no_wrap=True)
    names = [row[0].text for row in shown.rows]
    for name, row in zip(names, shown.rows, strict=True):
        before_average = names.index(tables.AVERAGE) - 1 == names.index(name)
        table.add_row(*map(_styled, row), end_section=before_average)
    return table


def _styled(text: Text) -> RichText:
    styled = RichText(
        one_line(text.text), style="dim" if text.quiet else _STYLES.get(text.place, "")
    )
    return styled.append("".join(text.marks), style="not bold not underline")


def _plain(text: Text) -> str:
    return one_line(text.text) + "".join(text.marks)
