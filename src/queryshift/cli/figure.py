"""`queryshift figure`: one of the paper's analyses, computed and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from queryshift.lab.figures import FIGURES

from .options import FOLDER, KnownName, benchmark_options, choices_from

_FILE = click.Path(path_type=Path, dir_okay=False)
_COUNT = click.IntRange(min=2)


@click.command()
@click.argument("name", type=KnownName("figure", FIGURES))
@click.option("--benchmark", help="Name of a benchmark.  [default: the figure's choice]")
@click.option("--shift", help="A shift of the benchmark.  [default: the figure's choice]")
@click.option("--severity", type=click.IntRange(1, 5), default=3, show_default=True)
@click.option("--queries", type=_COUNT, default=512, show_default=True, help="Use only the first.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@benchmark_options
@click.option(
    "--galleries",
    "kept",
    type=FOLDER,
    default=Path("runs/galleries"),
    show_default=True,
    help="Where encoded candidates are kept for the next figure.",
)
@click.option("--out", type=_FILE, help="A .png, .svg, .pdf or .json file.  [default: NAME.png]")
@click.option("--json", "numbers", is_flag=True, help="Also write the numbers, next to the chart.")
@click.option(
    "--from", "given", type=_FILE, help="Draw numbers that --json wrote, without computing them."
)
def command(name: str, out: Path | None, numbers: bool, given: Path | None, **wanted: Any) -> None:
    """Draw the figure NAME, and say whether the paper's claim holds in it.

    \b
    $ queryshift figure scaling --shift motion_blur --queries 1000
    $ queryshift figure severity --benchmark tangram-o-text --out text.svg --json
    """
    from queryshift.lab.figures.experiment import Request
    from queryshift.lab.figures.plotting import write_figure

    request = Request(choices=choices_from(wanted), **wanted)
    chart, written = write_figure(name, request, out or Path(f"{name}.png"), numbers, given)
    click.echo(chart.verdict)
    click.echo("\n".join(map(str, written)))
