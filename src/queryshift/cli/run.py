"""`queryshift run`: methods over a benchmark; every finished cell is kept."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from queryshift.methods import METHODS, OURS

from .options import COUNT, FOLDER, benchmark_options, choices_from, interruptible

if TYPE_CHECKING:
    from queryshift.lab.evaluation.runner.cell_executors import Execute
    from queryshift.lab.evaluation.runner.plans import Plan
    from queryshift.lab.evaluation.runner.resume import Ran

_PAPERS = tuple(name for name in METHODS if name not in OURS)


@click.command()
@click.argument("benchmark")
@click.option(
    "-m",
    "--method",
    "methods",
    multiple=True,
    metavar="NAME[:SETTING=VALUE,...][+WRAPPER]",
    help=f"One of {', '.join(METHODS)}, with settings (rest:gap=false,mining=false) or a wrapper "
    "(tent:lr=0.001+refined); default: the default session; all: the paper's eleven. Can be "
    "repeated.  [default: frozen, rest]",
)
@benchmark_options
@click.option("--shift", "shifts", multiple=True, help="Run only this shift; can be repeated.")
@click.option("--severity", "severities", multiple=True, type=int, help="1 to 5.  [default: 5]")
@click.option("--seeds", type=COUNT, default=1, show_default=True, help="How many random seeds.")
@click.option("--queries", type=COUNT, help="Use only the first queries.")
@click.option(
    "--out", type=FOLDER, default=Path("runs"), show_default=True, help="Folder of results."
)
@click.option("--jobs", type=COUNT, default=1, show_default=True, help="Processes.")
@click.option("--ray", "on_ray", is_flag=True, help="Run the cells on a Ray cluster.")
@click.option(
    "--from-folder", "folder", type=FOLDER, help="Read queries that `queryshift corrupt` made."
)
@click.option("--noise", type=FOLDER, help="Noise recordings for audio: rain.wav, crowd/...")
@click.option("--textures", type=FOLDER, help="Photographs of frost, for published images.")
@click.option(
    "--style-models",
    "styles",
    type=FOLDER,
    help="Folders formal/, ... of models for published texts.",
)
@click.option(
    "--similarity", default="", help="Sentence encoder for the similarity filter of texts."
)
@click.option(
    "--matcher", is_flag=True, help="Re-rank hits with the model's matching head (single-stream)."
)
@click.option(
    "--rerank", type=COUNT, help="How many hits --matcher re-ranks.  [default: as published]"
)
@click.option(
    "--strict", is_flag=True, help="Stop at the first unreadable item instead of leaving it out."
)
@click.option(
    "--check-base", is_flag=True, help="First check the frozen model against the paper's numbers."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object per result.")
def command(benchmark: str, as_json: bool, **given: Any) -> None:
    """Run methods on BENCHMARK, and keep each finished result in the folder --out.

    BENCHMARK is a name (`queryshift list benchmarks`), or a TOML file of your own
    (docs/your-own-data.md). If it is stopped, run the same command again to continue.

    \b
    $ queryshift list benchmarks
    $ queryshift run tangram-o-image -m rest -m tent --shift fog --seeds 3
    $ queryshift run coco-o -m all --root coco/ --jobs 4
    $ queryshift run tangram-d -m rest -m rest:decouple=false
    """
    from queryshift.lab.evaluation.runner.resume import run_all

    out = given["out"]
    with interruptible(lambda: _stopped(out)):
        plans = _plans(benchmark, given)
        with _executor(given) as execute:
            ran = run_all(plans, out, execute, given["check_base"])
    _show(ran, as_json)


def _stopped(out: Path) -> str:
    """What an interrupt left."""
    if any(out.glob("*.jsonl")):
        return f"Stopped; finished cells are in {out}: run the same command again to continue."
    return "Stopped before the first cell was finished: nothing is kept."


def _plans(benchmark: str, given: dict[str, Any]) -> list[Plan]:
    from queryshift.lab.evaluation.benchmarks import find
    from queryshift.lab.evaluation.runner.plans import Plan, plans_for

    if given["rerank"] is not None and not given["matcher"]:
        raise click.UsageError("--rerank says how many hits --matcher re-ranks: give both.")
    first = find(benchmark)[0]
    named = given["methods"] or first.methods
    plan = Plan(
        row=first,
        methods=tuple(chain(*(_PAPERS if name == "all" else (name,) for name in named))),
        seeds=tuple(range(given["seeds"])),
        shifts=given["shifts"],
        severities=given["severities"],
        choices=choices_from(given),
    )
    return plans_for(benchmark, plan)


def _executor(given: dict[str, Any]) -> AbstractContextManager[Execute]:
    from queryshift.lab.evaluation.runner import cell_executors

    if given["on_ray"]:
        return nullcontext(cell_executors.on_ray())
    jobs = given["jobs"]
    return cell_executors.in_processes(jobs) if jobs > 1 else nullcontext(cell_executors.in_turn)


def _show(ran: Ran, as_json: bool) -> None:
    from queryshift.lab.evaluation.report import Options, render, report
    from queryshift.lab.evaluation.results import encode

    for note in ran.notes:
        click.echo(note, err=True)
    if as_json:
        for cell in ran.cells:
            click.echo(encode(cell))
        return
    click.echo(render(report(ran.cells, Options(resamples=0)), "terminal"), nl=False)
    fresh = len(ran.cells) - ran.kept
    click.echo(
        f"{fresh} cell{'' if fresh == 1 else 's'} run, {ran.kept} kept from before.", err=True
    )
