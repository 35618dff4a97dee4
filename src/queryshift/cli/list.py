"""`queryshift list`: what there is, read from the tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import click

from queryshift.lab.corruptions.names import MODALITIES, by_category
from queryshift.lab.datasets import DATASETS
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.methods import METHODS, WRAPPERS
from queryshift.models import MODELS

from .options import KnownName


class Listing(NamedTuple):
    """A table of text: what the columns are called, and its rows."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def benchmarks() -> Listing:
    """A line per row of `BENCHMARKS`."""
    columns = ("name", "asks", "shifts", "protocol", "batch", "temperature", "model", "needs")
    rows = [
        (
            row.name,
            f"{row.query} -> {row.gallery}",
            f"{len(row.shifts)} x {len(row.severities)}" if row.corrupted else "as it is",
            row.protocol,
            str(row.batch),
            "the model's" if row.temperature is None else str(row.temperature),
            row.model or row.source,
            ", ".join(row.needs) or "nothing",
        )
        for row in BENCHMARKS.values()
    ]
    return Listing(columns, rows)


def methods() -> Listing:
    """Methods, then wrappers, each with the first sentence of its docstring."""
    named = [*METHODS.items(), *((f"+{name}", wrapper) for name, wrapper in WRAPPERS.items())]
    rows = [(name, (method.__doc__ or "").splitlines()[0]) for name, method in named]
    return Listing(("name", "what it does"), rows)


def models() -> Listing:
    """Short names, and what they stand for."""
    return Listing(("name", "stands for"), list(MODELS.items()))


def corruptions() -> Listing:
    """Every corruption, by modality and category."""
    rows = [
        (modality, category, name)
        for modality in MODALITIES
        for category, names in by_category(modality).items()
        for name in names
    ]
    return Listing(("modality", "category", "name"), rows)


def datasets() -> Listing:
    """Datasets on disk, and which benchmarks use them."""
    series: dict[str, list[str]] = {name: [] for name in DATASETS}
    for row in BENCHMARKS.values():
        if row.dataset in series and row.series not in series[row.dataset]:
            series[row.dataset].append(row.series)
    return Listing(("name", "asked by"), [(name, ", ".join(series[name])) for name in series])


LISTINGS: dict[str, Callable[[], Listing]] = {
    "benchmarks": benchmarks,
    "methods": methods,
    "models": models,
    "corruptions": corruptions,
    "datasets": datasets,
}


@click.command()
@click.argument("what", type=KnownName("list", LISTINGS))
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object per line.")
def command(what: str, as_json: bool) -> None:
    """List benchmarks, methods, models, corruptions or datasets.

    \b
    $ queryshift list benchmarks
    $ queryshift list methods
    """
    columns, rows = LISTINGS[what]()
    if as_json:
        for row in rows:
            click.echo(json.dumps(dict(zip(columns, row, strict=True))))
        return
    for line in aligned([columns, *rows]):
        click.echo(line)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their columns below one another."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ([text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in rows)
    return ["  ".join(row).rstrip() for row in padded]
