"""`queryshift evaluate`: what adaptation would do to your own queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options
from .options import COUNT, PATH

if TYPE_CHECKING:
    from rich.console import Console

    from queryshift.lab.own_traffic.evaluate import Evaluation
    from queryshift.lab.own_traffic.label_free_verdict import Advice


@click.command()
@click.option(
    "--model", help="A name, a path or module:function; leave it out if both are vectors."
)
@click.option("--gallery", type=PATH, required=True, help="Candidates: a file or a folder.")
@click.option("--queries", type=PATH, required=True, help="Queries: a file or a folder.")
@click.option("--matches", type=PATH, help="Right answers by query: JSON, or a table.")
@click.option(
    "--clicks", type=PATH, help="Clicks instead: a table with columns query_id and clicked."
)
@options.reference_option
@click.option(
    "-m",
    "--methods",
    multiple=True,
    metavar="NAME[:SETTING=VALUE,...]",
    help="Compare this method; can be repeated.  [default: frozen, "
    "frozen+hubs, default, rest; for vectors: frozen, default]",
)
@click.option(
    "--shift", metavar="NAME[:SEVERITY]", help="Corrupt the queries, such as gaussian_noise:3."
)
@options.columns_option
@click.option(
    "--batch", "batch_size", type=COUNT, default=64, show_default=True, help="Queries per batch."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@options.strict_option
@click.option(
    "--results",
    type=PATH,
    default=Path("evaluation/results.jsonl"),
    show_default=True,
    help="Where finished methods are kept, to continue from.",
)
@click.option(
    "--out", type=PATH, help="Write an HTML page with the table, curves and the worst queries."
)
@options.json_option
@options.traceback_option
def command(out: Path | None, as_json: bool, **given: Any) -> None:
    """Replay your queries over your gallery, with and without adaptation.

    Gallery and queries are a folder of images or audio files, vectors (.npy, .safetensors), texts
    (.txt), or a table (.jsonl, .csv, .tsv, .parquet) with an id and a text, path or vector column:
    see docs/your-own-data.md. With right answers or clicks you get a table of accuracy, without
    them advice. Unusable rows are left out and counted; more than 20 % of a file is an error.

    \b
    $ queryshift evaluate --model clip-base --gallery photos/ --queries log.csv --out page.html
    $ queryshift evaluate --gallery products.parquet --queries asked.npy --matches right.json
    """
    from queryshift.lab.own_traffic.evaluate import evaluate

    if out is not None:
        from queryshift.lab.evaluation.pages import check_writable

        out = check_writable(out)  # before the long part
    with options.interruptible(lambda: _stopped(given["results"])):
        evaluation = evaluate(**given)
    if out is not None:
        from queryshift.lab.evaluation.pages import write_page
        from queryshift.lab.own_traffic.evaluation_page import html

        write_page(html(evaluation), out)
    if as_json:
        click.echo(json.dumps(evaluation.as_dict()))
        return
    _show(evaluation)
    if out is not None:
        click.echo(f"The page is {out}.")


def _stopped(results: Path) -> str:
    """What an interrupt left."""
    if results.is_file():
        return (
            f"Stopped; finished methods are in {results}: run the same command again to continue."
        )
    return "Stopped before the first method was finished."


def _show(evaluation: Evaluation) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Column, Table

    from queryshift.lab.own_traffic.evaluate import MEASURES
    from queryshift.lab.own_traffic.recommendation import label

    console, asked = Console(highlight=False), evaluation.traffic
    for sentence in evaluation.notes:
        console.print(sentence, markup=False)
    if evaluation.advice is not None:
        _show_advice(evaluation.advice, console)
        return
    short = [name.replace("recall", "R").replace("ndcg@10", "ndcg") for name in MEASURES]
    method = Column("method", overflow="fold")  # in a narrow terminal a long name is never cut
    gain = Column("R@1 gain (95 %)", no_wrap=True)
    table = Table(method, *short, gain, "ms", box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for row in evaluation.rows:
        beside = f"{row.difference:+.1f} ({row.low:+.1f} to {row.high:+.1f})"
        table.add_row(
            row.method,
            *(f"{row.measures[name]:.1f}" for name in MEASURES),
            "" if row.method == "frozen" else beside,
            f"{1000 * row.seconds_per_query:.1f}",
        )
    console.print(
        f"{len(asked.queries):,} queries, {len(asked.counted):,} with a {label(asked.clicks)}, "
        f"over {len(asked.candidates):,} candidates, in the order they came."
    )
    console.print(table)
    console.print("R@1: recall@1. All in percent, the gain in points; ms: milliseconds per query.")
    if evaluation.kept:
        console.print(f"{evaluation.kept} methods were kept from before: nothing has changed.")
    console.print(evaluation.verdict, style="bold", markup=False)


def _show_advice(advice: Advice, console: Console) -> None:
    from rich.table import Column, Table

    for sentence in advice.reasons:
        console.print(f"- {sentence}", markup=False)
    measured = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2))
    for name, value in advice.measured:
        measured.add_row(f"  {value}", name)
    console.print(measured, markup=False)
    for sentence in advice.unknown:
        console.print(sentence, markup=False)
    console.print(advice.sentence, style="bold", markup=False)
