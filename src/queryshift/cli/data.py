"""`queryshift data`: datasets on disk, before anything is run on them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from queryshift.lab.datasets import DATASETS, HOME, found_at

from .options import Group, KnownName, json_option

if TYPE_CHECKING:
    from queryshift.lab.datasets.reading.dataset_check import Check

NAMED = 10  # missing files that are named one by one on a terminal


@click.group(cls=Group)
def command() -> None:
    """Check datasets on disk, and extract frames and audio from videos."""


@command.command()
@click.argument("name", type=KnownName("dataset", DATASETS))
@click.option("--root", type=click.Path(), help=f"The dataset's folder [default: ${HOME}/NAME].")
@click.option("--part", help="One split, domain or category.  [default: all that the paper uses]")
@json_option
@click.pass_context
def check(ctx: click.Context, name: str, root: str | None, part: str | None, as_json: bool) -> None:
    """Compare the files of dataset NAME with the published counts; exit code 1 if some are missing.

    \b
    $ queryshift data check coco --root ~/data/coco
    $ queryshift data check nocaps --root ~/data/nocaps --part near-domain
    """
    from queryshift.lab.datasets.reading import dataset_check

    place = found_at(name, root)
    if place is None:
        raise click.UsageError(f"give --root, or set {HOME} to the folder that holds {name}/.")
    result = dataset_check.check(name, place, part)
    if as_json:
        click.echo(json.dumps(result.as_dict()))
    else:
        _show(result)
    ctx.exit(0 if result.complete else 1)


@command.command()
@click.argument("folder", metavar="VIDEO_DIR", type=click.Path(exists=True, file_okay=False))
@click.argument("out", type=click.Path(file_okay=False))
@json_option
@click.pass_context
def frames(ctx: click.Context, folder: str, out: str, as_json: bool) -> None:
    """Make ten frames and a waveform of each video in VIDEO_DIR; exit code 1 if one fails.

    \b
    $ queryshift data frames ~/videos ~/data/vggsound
    """
    from queryshift.lab.datasets.reading import extract_frames

    extraction = extract_frames.extract(folder, out)
    if as_json:
        click.echo(json.dumps(asdict(extraction)))
    else:
        for sentence in extraction.failed:
            click.echo(sentence, err=True)
        click.echo(
            f"{len(extraction.done)} extracted, {len(extraction.there)} were there, "
            f"{len(extraction.failed)} failed."
        )
    ctx.exit(1 if extraction.failed else 0)


def _show(result: Check) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("part", "what", title=result.name)
    for column in ("found", "published", "paper"):
        table.add_column(column, justify="right")
    for count in result.counts:
        found = "not read" if count.found is None else f"{count.found:,}"
        published = "-" if count.published is None else f"{count.published:,}"
        paper = "" if count.paper is None else f"{count.paper:,}"  # only where it differs
        style = "red" if count.short else None
        table.add_row(count.part, count.what, found, published, paper, style=style)
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    for kind, lines in (("missing", result.missing), ("left out", result.left_out)):
        for line in lines[:NAMED]:
            console.print(f"{kind}: {line}", markup=False)
        if len(lines) > NAMED:
            console.print(f"{kind}: {len(lines):,} in all; --json names them.")
    console.print("Complete." if result.complete else "Not complete.")
