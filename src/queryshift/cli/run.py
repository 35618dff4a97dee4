"""`queryshift run`: methods over a benchmark; every finished cell is kept."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from queryshift.methods import METHODS, OURS

from .options import COUNT, FOLDER, benchmark_options, choices_from

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
    help=f"One of {', '.join(METHODS)}, with settings of its own or in a wrapper: "
    "rest:gap=false,mining=false or tent:lr=0.001+refined; default: a session without a method; "
    "or all: the paper's eleven.  [default: frozen, rest]",
)
@benchmark_options
@click.option("--shift", "shifts", multiple=True, help="Only this one; may be given several times.")
@click.option("--severity", "severities", multiple=True, type=int, help="1 to 5.  [default: 5]")
@click.option("--seeds", type=COUNT, default=1, show_default=True, help="How many: 0, 1, ...")
@click.option("--queries", type=COUNT, help="Ask only the first so many.")
@click.option("--out", type=FOLDER, default=Path("runs"), show_default=True, help="Results.")
@click.option("--jobs", type=COUNT, default=1, show_default=True, help="Processes.")
@click.option("--ray", "on_ray", is_flag=True, help="Run the cells on a Ray cluster.")
@click.option("--from-folder", "folder", type=FOLDER, help="Queries corrupted beforehand.")
@click.option("--noise", type=FOLDER, help="Recordings for audio: rain.wav, crowd/..., as READ.")
@click.option("--textures", type=FOLDER, help="Photographs of frost, for images as published.")
@click.option("--style-models", "styles", type=FOLDER, help="formal/, ... for text as published.")
@click.option("--similarity", default="", help="Sentence encoder of the published filter of text.")
@click.option("--matcher", is_flag=True, help="Single stream: its matching head ranks hits anew.")
@click.option("--rerank", type=COUNT, help="So many hits (with --matcher); default: published.")
@click.option("--strict", is_flag=True, help="An item that cannot be read is an error.")
@click.option("--check-base", is_flag=True, help="First compare the frozen model with the paper.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a cell.")
def command(benchmark: str, as_json: bool, **given: Any) -> None:
    """Run methods on BENCHMARK and keep every finished cell in the folder OUT.

    BENCHMARK is a name of the list, or a TOML file of your own (docs/your-own-data.md).
    Run the same command again to go on where it stopped.

    \b
    $ queryshift list benchmarks
    $ queryshift run tangram-o-image -m rest -m tent --shift fog --seeds 3
    $ queryshift run coco-o -m all --root coco/ --jobs 4
    $ queryshift run tangram-d -m rest -m rest:decouple=false
    """
    from queryshift.lab.evaluation.runner.resume import run_all

    out = given["out"]
    try:
        plans = _plans(benchmark, given)
        with _executor(given) as execute:
            ran = run_all(plans, out, execute, given["check_base"])
    except KeyboardInterrupt:
        click.echo(_stopped(out), err=True)
        raise SystemExit(130) from None
    _show(ran, as_json)


def _stopped(out: Path) -> str:
    """What an interrupt left."""
    if any(out.glob("*.jsonl")):
        return f"Stopped; finished cells are in {out}: run the same again to go on."
    return "Stopped before the first cell was finished: nothing is kept."


def _plans(benchmark: str, given: dict[str, Any]) -> list[Plan]:
    from queryshift.lab.evaluation.benchmarks import find
    from queryshift.lab.evaluation.runner.plans import Plan, plans_for

    if given["rerank"] is not None and not given["matcher"]:
        raise click.UsageError("--rerank says how many hits --matcher ranks anew: give both.")
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
