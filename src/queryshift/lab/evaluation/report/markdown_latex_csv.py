"""A report as Markdown, LaTeX or CSV, with names that are safe in each."""

from __future__ import annotations

import csv
import io
import re

from .result_tables import Grid, Report, Table, Text, grid, one_line
from .significance_marks import LEGEND

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "_%&#${}"},
    **{"±": r"$\pm$", "–": "--", "≤": r"$\leq$", "↓": r"$\downarrow$", "†": r"$\dagger$"},
}
_LATEX_SIGNS = re.compile("[" + re.escape("".join(_LATEX)) + "]")
_MARKDOWN_SIGNS = re.compile(r"[\\|*`\[\]~]|(?<!\w)_|_(?!\w)")
_LATEX_MARKS = {"*": "*", "↓": r"\downarrow", "†": r"\dagger"}
_CSV = (
    *("table", "benchmark", "shift", "metric", "method", "mean", "deviation", "seeds"),
    *("place", "marks", "paper", "difference"),
)


def markdown(report: Report) -> str:
    """Tables with **best** and <u>second best</u>, each with its notes."""
    parts = []
    for table in report.tables:
        shown = grid(table)
        header = tuple(map(in_markdown, shown.header))
        lines = [f"### {in_markdown(shown.title)}", "", _bar(header)]
        lines += [_bar(("---", *("--:" for _ in shown.header[1:])))]
        lines += [_bar(tuple(map(_markdown_text, row))) for row in shown.rows]
        notes = [f"- {in_markdown(note)}" for note in table.notes]
        parts.append("\n".join([*lines, "", *notes]).rstrip())
    sentences = [f"- {in_markdown(sentence)}" for sentence in (*report.legend, *report.notes)]
    return "\n\n".join([*parts, "\n".join(sentences)]) + "\n"


def latex(report: Report) -> str:
    """Tables for `booktabs`, with a caption each; paste them as they are."""
    comments = [
        f"% {one_line(note)}"
        for note in (*report.notes, *(n for t in report.tables for n in t.notes))
    ]
    legend = in_latex(" ".join(report.legend))
    return (
        "\n".join([*comments, *(_latex_table(grid(table), legend) for table in report.tables)])
        + "\n"
    )


def comma_separated(report: Report) -> str:
    """One line per number, with more digits, for other programs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV)
    for table in report.tables:
        writer.writerows(_csv_rows(table))
    return out.getvalue()


def _bar(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_text(text: Text) -> str:
    shown = in_markdown(text.text)
    shown = {1: f"**{shown}**", 2: f"<u>{shown}</u>"}.get(text.place, shown)
    shown = f"*{shown}*" if text.quiet and text.text != "–" else shown
    marks = "".join(r"\*" if mark == "*" else mark for mark in text.marks)
    return f"{shown}{marks} {text.spread}".rstrip()


def _latex_table(shown: Grid, legend: str) -> str:
    header = " & ".join(map(in_latex, shown.header))
    body = [" & ".join(map(_latex_text, row)) + r" \\" for row in shown.rows]
    return "\n".join(
        [
            r"\begin{table*}[t]",
            r"\centering",
            rf"\caption{{{in_latex(shown.title)}. {legend}}}",
            r"\resizebox{\linewidth}{!}{%",
            rf"\begin{{tabular}}{{l{'c' * (len(shown.header) - 2)}|c}}",
            r"\toprule",
            rf"{header} \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table*}",
        ]
    )


def _latex_text(text: Text) -> str:
    shown = in_latex(text.text)
    shown = {1: rf"\textbf{{{shown}}}", 2: rf"\underline{{{shown}}}"}.get(text.place, shown)
    shown = rf"\textit{{{shown}}}" if text.quiet else shown
    marks = "".join(_LATEX_MARKS[mark] for mark in text.marks)
    shown = f"{shown}$^{{{marks}}}$" if marks else shown
    return f"{shown} {in_latex(text.spread)}".rstrip()


def _csv_rows(table: Table) -> list[list[object]]:
    streams = [tuple(column) for column in table.columns]
    metrics = "/".join(dict.fromkeys(column.metric for column in table.columns))
    places = [*streams, ("", "average", metrics)]
    return [
        [
            *map(in_spreadsheet, (table.title, *place, label)),
            *(_rounded(entry.mean), _rounded(entry.deviation)),
            *(entry.seeds, entry.place or None, "; ".join(LEGEND[mark] for mark in entry.marks)),
            *(_rounded(entry.paper), _rounded(entry.difference)),
        ]
        for label, row in table.rows.items()
        for place, entry in zip(places, row, strict=True)
        if entry is not None
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def in_markdown(text: str) -> str:
    r"""The text in a Markdown table: no markup, no HTML, no further column."""
    safe = one_line(text).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKDOWN_SIGNS.sub(lambda sign: f"\\{sign[0]}", safe)


def in_latex(text: str) -> str:
    """The text in LaTeX: no commands."""
    return _LATEX_SIGNS.sub(lambda sign: _LATEX[sign[0]], one_line(text))


def in_spreadsheet(text: str) -> str:
    """The text in CSV: no formula where a spreadsheet opens it."""
    safe = one_line(text)
    return f"'{safe}" if safe[:1] in ("=", "+", "-", "@") else safe
