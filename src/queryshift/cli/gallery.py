"""`queryshift gallery`: build galleries from items, and measure the recall of an engine's index."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from queryshift.errors import BadInput, MissingExtra, check_known

from .options import CONTINUE, COUNT, PATH, Group, columns_option, interruptible, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryshift.sessions.recall_check import RecallCheck

NAMED = 10  # items left out that are named one by one on a terminal
SEVERITY = 3  # of the corrupted queries that an index is measured with


@click.group(cls=Group)
def command() -> None:
    """Build galleries from items, and check those in search engines."""


@command.command()
@click.option("--model", required=True, help="A name, a path, or module:function.")
@click.option(
    "--items",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path, exists=True),
    help="A folder, or a table of texts or paths; can be repeated.",
)
@click.option("--to", required=True, help="NAME.safetensors, NAME.parquet, or an address.")
@click.option(
    "--modality", default="", help="Which of the model's encoders.  [default: that of the items]"
)
@columns_option
@click.option(
    "--index",
    type=click.Choice(["exact", "hnsw"]),
    default="exact",
    show_default=True,
    help="Search all vectors, or an approximate index.",
)
@click.option(
    "--processes", type=COUNT, default=1, show_default=True, help="How many processes encode."
)
@click.option(
    "--ray",
    is_flag=False,
    flag_value="",
    metavar="[ADDRESS]",
    help="Encode on a Ray cluster: the one at ADDRESS, or the one that Ray finds or starts.",
)
@click.option(
    "--batch", "batch_size", type=COUNT, default=64, show_default=True, help="Items per batch."
)
@click.option(
    "--shard",
    "shard_size",
    type=COUNT,
    default=1024,
    show_default=True,
    help="Items between two saves.",
)
@click.option("--device", help="cpu, cuda, ...  [default: where the model is loaded]")
@click.option(
    "--strict", is_flag=True, help="Stop at the first unreadable item instead of leaving it out."
)
@click.option("--restart", is_flag=True, help="Discard an unfinished build, and begin again.")
@click.option("--journal", type=PATH, help="Folder for the finished parts of an unfinished build.")
@json_option
def build(model: str, items: tuple[Path, ...], to: str, as_json: bool, **settings: Any) -> None:
    """Encode items with a model, and write the vectors to a file or a search engine.

    If it is stopped, run the same command again to continue: no candidate is then missing or
    stored twice. Unreadable items are left out and named. A missing collection is created.

    \b
    $ queryshift gallery build --model clip-base --items photos/ --to photos.safetensors
    $ queryshift gallery build --model tangram --items captions.jsonl --to captions.parquet
    $ queryshift gallery build --model clip-base --items photos/ --ray \\
        --to "postgresql://me@host/shop?table=photos" --index hnsw
    """
    from queryshift.indexing import BuildSettings, build_gallery

    with interruptible(lambda: CONTINUE):
        built = build_gallery(model, list(items), to, BuildSettings(**settings))
    if as_json:
        bad = [row._asdict() for row in built.bad]
        values = {"rows": built.rows, "kept": built.kept, "bad": bad, "seconds": built.seconds}
        click.echo(json.dumps(values))
        return
    for row in built.bad[:NAMED]:
        click.echo(f"left out: {row.id!r}: {row.reason}", err=True)
    if len(built.bad) > NAMED:
        click.echo(f"left out: {len(built.bad):,} in all; --json names them.", err=True)
    kept = f", {built.kept:,} of them from before" if built.kept else ""
    left_out = f"; {len(built.bad):,} items left out" if built.bad else ""
    click.echo(f"{built.rows:,} candidates in {built.seconds:.1f} s{kept}{left_out}.")


@command.command()
@click.argument("address")
@click.option(
    "--queries",
    type=PATH,
    required=True,
    help="Vectors (.npy); or with --model captions, a table, a folder of images or audio files.",
)
@click.option(
    "--model", help="The model that encodes the queries: a name, a path or module:function."
)
@click.option(
    "--sample", type=COUNT, default=256, show_default=True, help="How many queries to use."
)
@click.option(
    "--depth",
    type=COUNT,
    default=100,
    show_default=True,
    help="Hits that a session fetches for a query.",
)
@json_option
def check(
    address: str, queries: Path, model: str | None, sample: int, depth: int, as_json: bool
) -> None:
    """Compare the index at ADDRESS with exact search, and store the result.

    It uses the queries as they are, then shifted: with --model they are corrupted (images with
    noise, audio with traffic, text with OCR errors), without it their vectors are moved away from
    their nearest candidates. The exit code is 1 if recall@10 is below 0.97.

    \b
    $ queryshift gallery check faiss:captions.faiss --queries asked.npy
    $ queryshift gallery check milvus://localhost:19530/captions --queries photos/ --model clip-base
    """
    from queryshift import Gallery, check_recall
    from queryshift.galleries import EngineGallery

    gallery = Gallery.open(address)
    if not isinstance(gallery, EngineGallery) or gallery.exact:
        click.echo("This gallery is searched exactly: there is nothing to measure.")
        return
    try:
        given = _asked(queries, model, sample)
        result = check_recall(gallery, depth=depth, **given)
    finally:
        gallery.close()
    if as_json:
        click.echo(json.dumps({**asdict(result), "enough": result.enough}))
    else:
        _show(result, corrupted=given.get("shifted") is not None)
    if not result.enough:
        raise SystemExit(1)


def _asked(path: Path, model: str | None, sample: int) -> dict[str, Any]:
    """Vectors; or items with their encoder, and the same items corrupted."""
    from queryshift.media.item_collection import read_collection
    from queryshift.models import load

    collection = read_collection(path)
    items = _drawn(collection.items, sample)
    if collection.modality == "vector":
        return {"queries": items}
    if model is None:
        raise BadInput(
            f'"{path}" holds items ({collection.modality}): name the model that encodes them with '
            "--model, or give vectors (.npy)."
        )
    encoders = load(model)
    check_known(f'encoder of "{model}"', collection.modality, encoders)
    shifted = _corrupted(collection.modality, items)
    return {"encoder": encoders[collection.modality], "queries": items, "shifted": shifted}


def _corrupted(modality: str, items: list[Any]) -> list[Any] | None:
    from queryshift.lab.corruptions import REPRESENTATIVE, corrupt, find

    try:
        shift = find(modality, next(iter(REPRESENTATIVE[modality].values())))
        return [
            corrupt(item, shift, SEVERITY, seed=0, item_id=str(place))
            for place, item in enumerate(items)
        ]
    except MissingExtra:
        return None


def _drawn(given: Sequence[Any], sample: int) -> list[Any]:
    """`sample` of many, spread evenly over all of them."""
    step = max(1, len(given) / sample)
    return [given[int(place * step)] for place in range(min(sample, len(given)))]


def _show(result: RecallCheck, corrupted: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    how = f", {result.breadth}" if result.breadth else ""
    asked = f"{result.queries} queries{how}"
    table = Table(asked, "recall@10", f"recall@{result.depth}", title_justify="left")
    shifted = "corrupted" if corrupted else "shifted"
    for name, recall in (("as they are", result.ordinary), (shifted, result.shifted)):
        table.add_row(name, f"{recall.at_10:.3f}", f"{recall.at_depth:.3f}")
    console = Console(highlight=False)
    console.print(table)
    for method, share in result.agreement.items():
        console.print(f"{method}: {share:.1%} of the top-1 results are those of exact search.")
    console.print("Enough for sessions." if result.enough else f"Too little: {result.advice}.")
