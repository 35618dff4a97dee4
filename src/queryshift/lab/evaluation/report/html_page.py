"""A report as one HTML file that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from typing import Any

from ..pages import render
from .result_tables import Entry, Report, Table, grid, one_line
from .significance_marks import FROZEN

_PLACES = {1: "best", 2: "second"}
_STRONGEST = 0.55  # opacity of the largest gain or loss of a table


def html(report: Report) -> str:
    """The page: per table a bar for each average, then every number, tinted by its gain."""
    tables = [_parts(table) for table in report.tables]
    text = render("report", colours={}, tables=tables, legend=report.legend, notes=report.notes)
    return "\n".join(map(one_line, text.split("\n")))


def _parts(table: Table) -> dict[str, Any]:
    shown = grid(table)
    tints = _tints(table)
    return {
        "title": shown.title,
        "header": shown.header,
        "rows": [
            [
                (text, _PLACES.get(text.place, ""), tint)
                for text, tint in zip(row, tint_row, strict=True)
            ]
            for row, tint_row in zip(shown.rows, _under(shown.rows, tints), strict=True)
        ],
        "tinted": bool(tints),
        "bars": _bars(table),
        "notes": table.notes,
    }


def _tints(table: Table) -> dict[str, list[float]]:
    """Gains over the frozen model (losses negative), as opacities."""
    base = table.rows.get(FROZEN)
    if base is None:
        return {}
    sign = 1 if table.higher_is_better else -1
    gains = {
        label: [sign * _gain(own, frozen) for own, frozen in zip(row, base, strict=True)]
        for label, row in table.rows.items()
    }
    largest = max((abs(gain) for row in gains.values() for gain in row), default=0) or 1
    return {label: [_STRONGEST * gain / largest for gain in row] for label, row in gains.items()}


def _gain(own: Entry | None, frozen: Entry | None) -> float:
    return 0.0 if own is None or frozen is None else own.mean - frozen.mean


def _under(rows: Any, tints: dict[str, list[float]]) -> list[list[float]]:
    """An opacity for each text of the grid; none for names, and for the paper's rows."""
    plain = [0.0] * len(rows[0])
    return [plain if row[0].quiet else [0.0, *tints.get(row[0].text, plain[1:])] for row in rows]


def _bars(table: Table) -> list[dict[str, Any]]:
    """Each method's average as a share of the largest."""
    averages = {label: row[-1] for label, row in table.rows.items() if row[-1] is not None}
    largest = max((entry.mean for entry in averages.values()), default=0) or 1
    return [
        {
            "label": label,
            "value": f"{entry.mean:.1f}",
            "width": 100 * entry.mean / largest,
            "place": _PLACES.get(entry.place, ""),
        }
        for label, entry in averages.items()
    ]
