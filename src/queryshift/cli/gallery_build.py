"""`queryshift gallery build`: a gallery from files of items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .column_option import columns_given

if TYPE_CHECKING:
    from queryshift.indexing import Built

_COUNT = click.IntRange(min=1)
_PATH = click.Path(path_type=Path)
NAMED = 10  # items left out that are named one by one on a terminal


@click.command()
@click.option("--model", required=True, help="A name, a path, or module:function.")
@click.option(
    "--items",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path, exists=True),
    help="A folder, or a table of texts or paths; may be given several times.",
)
@click.option("--to", required=True, help="NAME.safetensors, NAME.parquet, or an address.")
@click.option("--modality", default="", help="Which encoder.  [default: that of the items]")
@click.option("--column", "columns", multiple=True, callback=columns_given, help="Such as id=sku.")
@click.option("--index", type=click.Choice(["exact", "hnsw"]), default="exact", show_default=True)
@click.option("--processes", type=_COUNT, default=1, show_default=True, help="How many encode.")
@click.option(
    "--ray",
    is_flag=False,
    flag_value="",
    metavar="[ADDRESS]",
    help="Encode on a Ray cluster: the one at ADDRESS, or the one that Ray finds.",
)
@click.option("--batch", "batch_size", type=_COUNT, default=64, show_default=True)
@click.option("--shard", "shard_size", type=_COUNT, default=1024, show_default=True)
@click.option("--device", help="cpu, cuda, ...; by default where the model is loaded.")
@click.option("--strict", is_flag=True, help="An item that cannot be read is an error.")
@click.option("--restart", is_flag=True, help="Forget a build that was stopped here.")
@click.option("--journal", type=_PATH, help="The folder that says what is done.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for other programs.")
def build(model: str, items: tuple[Path, ...], to: str, as_json: bool, **settings: Any) -> None:
    """Encode items with a model, and keep the vectors where a session can search them.

    Run the same command again to go on where it stopped, whatever stopped it: no candidate is
    there twice, none is missing. Items that cannot be read are left out and named. A collection
    that is not there is made.

    \b
    $ queryshift gallery build --model clip-base --items photos/ --to photos.safetensors
    $ queryshift gallery build --model tangram --items captions.jsonl --to captions.parquet
    $ queryshift gallery build --model clip-base --items photos/ --ray \\
        --to "postgresql://me@host/shop?table=photos" --index hnsw
    """
    from queryshift.indexing import BuildSettings, build_gallery

    try:
        built = build_gallery(model, list(items), to, BuildSettings(**settings))
    except KeyboardInterrupt:
        click.echo("Stopped: run the same again to go on where it was.", err=True)
        raise SystemExit(130) from None
    if as_json:
        click.echo(json.dumps(_as_values(built)))
        return
    for row in built.bad[:NAMED]:
        click.echo(f"left out: {row.id!r}: {row.reason}", err=True)
    if len(built.bad) > NAMED:
        click.echo(f"left out: {len(built.bad):,} in all; --json names them.", err=True)
    kept = f", {built.kept:,} of them from before" if built.kept else ""
    left_out = f"; {len(built.bad):,} items left out" if built.bad else ""
    click.echo(f"{built.rows:,} candidates in {built.seconds:.1f} s{kept}{left_out}.")


def _as_values(built: Built) -> dict[str, Any]:
    return {
        "rows": built.rows,
        "kept": built.kept,
        "bad": [row._asdict() for row in built.bad],
        "seconds": built.seconds,
    }
