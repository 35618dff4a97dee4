"""A table as text in rows and columns, and text that is safe in every format."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .result_tables import Entry, Table

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "_%&#${}"},
    **{"±": r"$\pm$", "–": "--", "≤": r"$\leq$", "↓": r"$\downarrow$", "†": r"$\dagger$"},
}
_LATEX_SIGNS = re.compile("[" + re.escape("".join(_LATEX)) + "]")
_MARKDOWN_SIGNS = re.compile(r"[\\|*`\[\]~]|(?<!\w)_|_(?!\w)")


def one_line(text: str) -> str:
    r"""The text without control characters: `ESC` becomes the four characters `\x1b`."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


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


MISSING = "–"
PAPER, DIFFERENCE = "paper", "diff"


@dataclass(frozen=True)
class Text:
    """The text of one cell of a grid, and how it is emphasised."""

    text: str
    spread: str = ""  # the deviation over seeds, with its sign
    place: int = 0
    marks: tuple[str, ...] = ()
    quiet: bool = False  # the paper's numbers, and differences from them


@dataclass(frozen=True)
class Grid:
    """A header over rows; the first of each row names it."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]

    def transposed(self) -> Grid:
        """Shifts in rows and methods in columns, as fits a terminal."""
        names = [row[0].text for row in self.rows]
        body = zip(*(row[1:] for row in self.rows), strict=True)
        named = zip(self.header[1:], body, strict=True)
        return Grid(self.title, ("", *names), tuple((Text(name), *row) for name, row in named))


def grid(table: Table) -> Grid:
    """Methods in rows; below those the paper has, its numbers and the differences."""
    rows = []
    for label, entries in table.rows.items():
        rows.append((Text(label), *map(_ours, entries)))
        if any(entry and entry.paper is not None for entry in entries):
            rows.append((Text(PAPER, quiet=True), *map(_paper, entries)))
            rows.append((Text(DIFFERENCE, quiet=True), *map(_difference, entries)))
    return Grid(heading(table), ("method", *table.names), tuple(rows))


def heading(table: Table) -> str:
    """The title, with the metrics and the numbers of queries and candidates."""
    metrics = ", ".join(dict.fromkeys(column.metric for column in table.columns))
    sizes = sorted({cell.size for cell in table.cells})
    size = "; ".join(
        f"{queries:,} queries, {candidates:,} candidates" for queries, candidates in sizes[:2]
    )
    more = "; ..." if len(sizes) > 2 else ""
    return f"{table.title}: {metrics} ({size}{more})"


def _ours(entry: Entry | None) -> Text:
    if entry is None:
        return Text(MISSING)
    spread = "" if entry.deviation is None else f"± {entry.deviation:.1f}"
    return Text(f"{entry.mean:.1f}", spread, entry.place, entry.marks)


def _paper(entry: Entry | None) -> Text:
    known = entry is not None and entry.paper is not None
    return Text(f"{entry.paper:.1f}" if known and entry else MISSING, quiet=True)


def _difference(entry: Entry | None) -> Text:
    if entry is None or entry.difference is None:
        return Text(MISSING, quiet=True)
    return Text(f"{round(entry.difference, 1) + 0.0:+.1f}", quiet=True)  # never "-0.0"
