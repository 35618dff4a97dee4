"""A report on a terminal: shifts in rows, as many methods side by side as the window takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text as RichText

from .grid import Grid, Text, grid

if TYPE_CHECKING:
    from . import Report

_STYLES = {1: "bold", 2: "underline"}
_EDGE = 3  # what a column takes beside its text


def terminal(report: Report) -> str:
    """The report in the colours and width of the terminal, plain if there is none."""
    console = Console()
    with console.capture() as captured:
        show(report, console)
    return captured.get()


def show(report: Report, console: Console) -> None:
    """Print the report; deviations stand in the averages only, to spare width."""
    for table in report.tables:
        plain, full = grid(table, deviations=False), grid(table)
        rows = tuple(
            (*row[:-1], whole[-1]) for row, whole in zip(plain.rows, full.rows, strict=True)
        )
        whole_grid = Grid(plain.title, plain.header, rows).transposed()
        for part in _fitting(whole_grid, console.width):
            console.print(_dressed(part))
        for note in table.notes:
            console.print(note, style="dim", highlight=False)
        console.print()
    for line in (*report.legend, *report.notes):
        console.print(line, highlight=False)


def _fitting(shown: Grid, width: int) -> Iterator[Grid]:
    """The grid in parts no wider than the window, each with the names of the rows."""
    lines = [[Text(name) for name in shown.header], *shown.rows]
    wide = [max(len(_plain(row[at])) for row in lines) + _EDGE for at in range(len(lines[0]))]
    start = 1
    while start < len(wide):
        end, used = start + 1, wide[0] + wide[start] + 1
        while end < len(wide) and used + wide[end] <= width:
            used += wide[end]
            end += 1
        kept = slice(start, end)
        rows = tuple((row[0], *row[kept]) for row in shown.rows)
        yield Grid(shown.title, ("", *shown.header[kept]), rows)
        start = end


def _dressed(shown: Grid) -> RichTable:
    table = RichTable(title=shown.title, title_justify="left", title_style="bold")
    for at, name in enumerate(shown.header):
        table.add_column(name, justify="right" if at else "left", no_wrap=True)
    for at, row in enumerate(shown.rows):
        last_shift = at == len(shown.rows) - 2
        table.add_row(*map(_styled, row), end_section=last_shift)
    return table


def _styled(text: Text) -> RichText:
    styled = RichText(text.text, style="dim" if text.quiet else _STYLES.get(text.place, ""))
    return styled.append("".join(text.marks), style="not bold not underline")


def _plain(text: Text) -> str:
    return text.text + "".join(text.marks)
