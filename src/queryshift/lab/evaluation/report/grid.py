"""A table as text in rows and columns."""

from __future__ import annotations

from dataclasses import dataclass

from .result_tables import Entry, Table

MISSING = "–"
PAPER, DIFFERENCE = "paper", "diff"


def one_line(text: str) -> str:
    r"""The text without control characters: `ESC` becomes the four characters `\x1b`."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


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
