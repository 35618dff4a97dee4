"""Read the paper's tables, and find a number in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from queryshift.errors import check_known, unknown

TABLES = (
    *("coco-o-image", "fiq-o", "audioset-o", "real-online", "diverse"),
    *("ablation-losses", "ablation-decoupling"),
    *("coco-o-image-large", "coco-o-text", "remote-sensing", "flickr-o-image", "flickr-o-text"),
    *("cirr-o", "coco-o-image-matching", "coco-o-text-matching", "seconds"),
)
SEVERITY = 5  # of all corruptions in the tables: the maximum


@dataclass(frozen=True)
class Column:
    """A column of a table; without a shift, the queries are not corrupted."""

    benchmark: str
    shift: str
    metric: str
    model: str = ""  # where the columns of one table are of several models


@dataclass(frozen=True)
class Row:
    """One method's values, and their average as printed (None where the paper has none)."""

    method: str
    values: tuple[float, ...]
    average: float | None = None
    model: str = ""
    spec: str = ""  # how `queryshift run -m` is asked for it, where that is not the plain method

    @property
    def label(self) -> str:
        """The method with its changed settings."""
        return self.spec or self.method


@dataclass(frozen=True)
class PaperTable:
    """One table: `label` is the paper's own, the caption is ours."""

    name: str
    label: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Value:
    """One number of the paper, with its table, column and row."""

    table: str
    column: Column
    row: Row
    value: float

    @property
    def model(self) -> str:
        """The source model it was measured with."""
        return self.column.model or self.row.model


@cache
def table(name: str) -> PaperTable:
    """One of `TABLES`."""
    check_known("table of the paper", name, TABLES)
    text = files(__package__).joinpath("tables", f"{name}.json").read_text(encoding="utf-8")
    parts: dict[str, Any] = json.loads(text)
    columns = tuple(Column(**column) for column in parts.pop("columns"))
    rows = tuple(Row(**row | {"values": tuple(row["values"])}) for row in parts.pop("rows"))
    return PaperTable(**parts, columns=columns, rows=rows)


def values() -> Iterator[Value]:
    """Every number of every table."""
    for name in TABLES:
        here = table(name)
        for row in here.rows:
            for column, value in zip(here.columns, row.values, strict=True):
                yield Value(name, column, row, value)


@cache
def models() -> tuple[str, ...]:
    """The source models of the tables, in their order."""
    return tuple(dict.fromkeys(value.model for value in values()))


def find(benchmark: str, shift: str, label: str, model: str = "", metric: str = "") -> Value | None:
    """The paper's number for a method's stream, of this model or of the first one it reports.

    Where the paper has one stream per benchmark (real-world and diverse shifts), any shift will do.
    Without a metric it is the recall that the benchmark is judged by.
    """
    if model and model not in models():
        raise unknown("model of the paper", model, models())
    for value in _by_stream().get((benchmark, label), ()):
        name = value.column.metric
        fits = name == metric if metric else name.startswith("recall@")
        if fits and value.column.shift in ("", shift) and model in ("", value.model):
            return value
    return None


@cache
def _by_stream() -> dict[tuple[str, str], tuple[Value, ...]]:
    """All numbers by benchmark and method."""
    grouped: dict[tuple[str, str], tuple[Value, ...]] = {}
    for value in values():
        key = (value.column.benchmark, value.row.label)
        grouped[key] = (*grouped.get(key, ()), value)
    return grouped
