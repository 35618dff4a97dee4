"""`queryshift tune`: a learning rate and a temperature for a model and the queries it gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import PATH, json_option, reference_option, strict_option, traceback_option

if TYPE_CHECKING:
    from queryshift.lab.tuning.grid_search import Trial, Tuned


def _numbers(
    ctx: click.Context, option: click.Parameter, value: str | None
) -> tuple[float, ...] | None:
    try:
        return None if value is None else tuple(map(float, value.split(",")))
    except ValueError:
        raise click.BadParameter(f"{value!r}: give numbers with commas between them.") from None


@click.command()
@click.argument("model")
@click.option("--queries", type=PATH, required=True, help="A sample of your queries.")
@click.option("--gallery", type=PATH, required=True, help="The items that are searched.")
@click.option("--labels", type=PATH, help='JSON: {"query name": ["candidate name", ...], ...}.')
@reference_option
@click.option(
    "--method",
    default="rest",
    show_default=True,
    help="Such as default, rest, shot or infomax+hubs; all: `queryshift list methods`.",
)
@click.option(
    "--rates", callback=_numbers, help="Learning rates, such as 1e-3,1e-2.  [default: 1e-5 to 3e-3]"
)
@click.option("--temperatures", callback=_numbers, help="Temperatures.  [default: 0.01,0.02,0.05]")
@click.option(
    "--sample", type=int, help="How many queries to use, drawn at random.  [default: 256]"
)
@click.option("--seed", type=int, help="Random seed of the sample.  [default: 0]")
@strict_option
@traceback_option
@json_option
def command(
    model: str, queries: Path, gallery: Path, labels: Path | None, as_json: bool, **given: object
) -> None:
    """Find a learning rate and a temperature for MODEL (a name, a path, or module:function).

    Queries and gallery are what `queryshift evaluate` reads, such as a folder of images or a file
    with one caption per line. Labels map a query to its right answers, files by their names and
    captions by their texts; a few labels are enough. Without labels, the contrast decides
    (docs/tune.md).

    \b
    $ queryshift tune clip-base --queries photos/ --gallery captions.txt
    $ queryshift tune tangram --queries asked.txt --gallery images/ --labels right.json
    """
    from queryshift.lab.tuning.tune_files import tune_files

    chosen: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    tuned = tune_files(model, queries, gallery, labels, **chosen)
    if as_json:
        click.echo(json.dumps(tuned.as_dict()))
        return
    _show(tuned)


def _show(tuned: Tuned) -> None:
    from rich.console import Console
    from rich.table import Table

    recall = ["R@1"] if tuned.labelled else []
    table = Table("lr", "temperature", "contrast", "similarity", "variety", *recall, "")
    table.add_row("not adapted", "", *_measures(tuned.source), "")
    for trial in tuned.trials:
        mark = "best" if trial == tuned.best else ""
        table.add_row(f"{trial.lr:g}", f"{trial.temperature:g}", *_measures(trial), mark)
    console = Console(highlight=False)
    for sentence in (sentence for each in tuned.bad for sentence in each.sentences):
        console.print(sentence, markup=False)
    console.print(table)
    decided = f"recall at 1 over {tuned.labelled} labels" if tuned.labelled else "the contrast"
    if tuned.advice is not None:
        for sentence in dict.fromkeys((*tuned.advice.reasons, tuned.advice.sentence)):
            console.print(sentence, markup=False)
    elif tuned.best is None:
        console.print(f"By {decided} nothing was better than not adapting:")
    elif tuned.at_edge:
        console.print(f"The best learning rate is the {tuned.at_edge} tried: try --rates beyond.")
    console.print(f"Chosen by {decided}, from {tuned.queries} queries:")
    click.echo(tuned.line)


def _measures(trial: Trial) -> list[str]:
    shown = [f"{value:.3f}" for value in (trial.contrast, trial.similarity, trial.variety)]
    return shown if trial.recall is None else [*shown, f"{trial.recall:.1f}"]
