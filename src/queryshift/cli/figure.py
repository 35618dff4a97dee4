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
@click.option("--benchmark", help="A benchmark's name; by default the figure's own choice.")
@click.option("--shift", help="One of the benchmark's shifts; by default the figure's own choice.")
@click.option("--severity", type=click.IntRange(1, 5), default=3, show_default=True)
@click.option("--queries", type=_COUNT, default=512, show_default=True, help="The first so many.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of order and corruption.")
@benchmark_options
@click.option(
    "--galleries",
    "kept",
    type=FOLDER,
    default=Path("runs/galleries"),
    show_default=True,
    help="Where embedded candidates are kept for the next figure.",
)
@click.option("--out", type=_FILE, help="A .png (NAME.png by default), .svg, .pdf or .json file.")
@click.option("--json", "numbers", is_flag=True, help="Write the numbers beside the chart too.")
@click.option("--from", "given", type=_FILE, help="Draw numbers that --json wrote: no computing.")
def command(name: str, out: Path | None, numbers: bool, given: Path | None, **wanted: Any) -> None:
    """Make the figure NAME, and say whether the paper's claim holds in it.

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
