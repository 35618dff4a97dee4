"""`queryshift figure`: one of the paper's analyses, computed and drawn."""

from __future__ import annotations

from pathlib import Path

import click

from ..figures import FIGURES

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("name", type=click.Choice(list(FIGURES)))
@click.option("--benchmark", help="A benchmark's name; by default the figure's own choice.")
@click.option("--shift", help="One of the benchmark's shifts; by default the figure's own choice.")
@click.option("--severity", type=click.IntRange(1, 5), default=3, show_default=True)
@click.option("--queries", type=click.IntRange(min=2), default=512, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of order and corruption.")
@click.option("--out", type=_FILE, help="A .png (NAME.png by default), .svg, .pdf or .json file.")
@click.option("--json", "numbers", is_flag=True, help="Write the numbers beside the picture too.")
@click.option("--from", "given", type=_FILE, help="Draw numbers that --json wrote: no computing.")
def command(
    name: str,
    benchmark: str | None,
    shift: str | None,
    severity: int,
    queries: int,
    seed: int,
    out: Path | None,
    numbers: bool,
    given: Path | None,
) -> None:
    """Make the figure NAME, and say whether the paper's claim holds in it.

    \b
    $ queryshift figure scaling --shift motion_blur --queries 1000
    $ queryshift figure severity --benchmark tangram-o-text --out text.svg --json
    """
    from ..figures.making import make
    from ..figures.stage import Request

    request = Request(
        benchmark=benchmark, shift=shift, severity=severity, queries=queries, seed=seed
    )
    chart, written = make(name, request, out or Path(f"{name}.png"), numbers, given)
    click.echo(chart.verdict)
    click.echo("\n".join(map(str, written)))
