"""`queryshift models`: what a model is, before anything is built on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from .options import Group, json_option

if TYPE_CHECKING:
    from queryshift.models.inspect import Inspection


@click.group(cls=Group)
def command() -> None:
    """Check a model before you use it."""


@command.command()
@click.argument("name")
@click.option("--adapt", default="all", show_default=True, help='"all", "last:3" or a pattern.')
@click.option(
    "--preprocessing",
    type=click.Choice(["library", "published"]),
    default="library",
    show_default=True,
    help="Read items as the library does, or as in published results.",
)
@json_option
def check(name: str, adapt: str, preprocessing: str, as_json: bool) -> None:
    """Load the model NAME, encode test items, and list problems.

    NAME is a short name, a name on the Hugging Face Hub, a directory, a file or module:function.

    \b
    $ queryshift models check tangram
    $ queryshift models check openai/clip-vit-base-patch16 --adapt last:3
    """
    from queryshift.models import inspect

    inspection = inspect.check(name, adapt, preprocessing)
    if as_json:
        click.echo(json.dumps(inspection.as_dict()))
        return
    _show(inspection)


def _show(inspection: Inspection) -> None:
    from rich.console import Console
    from rich.table import Table

    sides = inspection.sides
    table = Table("", *(side.modality for side in sides), title=inspection.name)
    table.add_row("encoder", *(side.encoder for side in sides))
    several = [f" x {side.vectors_per_item}" * (side.vectors_per_item > 1) for side in sides]
    sizes = [f"{side.dimensions}{more}" for side, more in zip(sides, several, strict=True)]
    table.add_row("vector", *sizes)
    table.add_row("parameters", *(f"{side.parameters:,}" for side in sides))
    table.add_row("norm layers", *(f"{side.norm_layers}" for side in sides))
    table.add_row("that adapt", *(f"{side.adapted_layers}" for side in sides))
    table.add_row("adapted parameters", *(f"{side.adapted_parameters:,}" for side in sides))
    table.add_row("state per session", *(f"{side.session_bytes / 1024:,.0f} KiB" for side in sides))
    console = Console(highlight=False)
    console.print(table)
    for warning in inspection.warnings:
        console.print(f"[yellow]warning[/] {warning}")
    if not inspection.warnings:
        console.print("No problems found: the test items were encoded.")
