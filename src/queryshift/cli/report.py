"""`queryshift report`: tables of finished runs, tested, beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

FORMATS = ("terminal", "markdown", "latex", "csv", "html")


@click.command()
@click.argument("runs", type=click.Path(path_type=Path, exists=True))
@click.option("--format", "form", type=click.Choice(FORMATS), default="terminal", show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
@click.option(
    "--metric", help="recall@K, mean_rank, median_rank, map or seconds.  [default: the paper's]"
)
@click.option("--paper", is_flag=True, help="Add the paper's numbers, and the differences.")
@click.option(
    "--paper-model", default="", help='Which of the paper\'s models, such as "BLIP ViT-L/16".'
)
@click.option(
    "--any-size",
    is_flag=True,
    help="Add the paper's numbers even if the number of queries differs.",
)
@click.option(
    "--resamples", type=click.IntRange(min=0), help="Resamples of the bootstrap; 0: no tests."
)
def command(runs: Path, form: str, out: Path | None, paper: bool, **given: Any) -> None:
    """Make tables from the results in RUNS, a folder or one .jsonl file.

    \b
    $ queryshift report runs/
    $ queryshift report runs/ --paper --format markdown
    $ queryshift report runs/ --format html --out report.html
    """
    from queryshift.lab.evaluation.report import Options, render, report_folder

    known = {name: value for name, value in given.items() if value is not None}
    options = Options(paper=paper or bool(given["paper_model"]), **known)
    text = render(report_folder(runs, options), form)
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
        click.echo(f"{out}: {len(text.encode()):,} bytes")
