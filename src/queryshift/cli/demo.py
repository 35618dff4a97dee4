"""`queryshift demo`: see adaptation work on the embedded world."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from queryshift.lab.datasets.tangram import TASKS

from .options import KnownName, json_option

if TYPE_CHECKING:
    from queryshift.lab.demo.run_demo import Demo


@click.command()
@click.option(
    "--task",
    type=KnownName("task", TASKS),
    default="image",
    show_default=True,
    help="Modality of the queries.",
)
@click.option(
    "--shift",
    help='How the queries are corrupted, such as fog; "diverse": each query differently; '
    '"list": all names for the task.',
)
@click.option(
    "-m",
    "--method",
    multiple=True,
    metavar="NAME[:SETTING=VALUE,...]",
    help="Compare this method with the frozen model; can be repeated.",
)
@click.option("--severity", type=int, default=3, show_default=True, help="1 to 5.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option(
    "--queries", type=int, default=1024, show_default=True, help="How many shifted queries."
)
@click.option("--quick", is_flag=True, help="Few queries and methods, in about 15 s.")
@json_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default="queryshift-demo.html",
    show_default=True,
    help="Where to write the HTML page with queries, answers and curves.",
)
def command(as_json: bool, out: Path, **wish: object) -> None:
    """Compare answers to shifted and clean queries with and without adaptation.

    Nothing is downloaded: queries and candidates are made from the seed. It takes about a minute
    for images on two cores, longer for audio and video.

    \b
    $ queryshift demo
    $ queryshift demo --quick --method rest
    $ queryshift demo --shift motion_blur --queries 512
    $ queryshift demo --shift diverse --json
    """
    from queryshift.lab.demo.demo_page import html
    from queryshift.lab.demo.demo_plan import DemoPlan, shifts
    from queryshift.lab.demo.run_demo import demonstrate
    from queryshift.lab.evaluation.pages import check_writable, write_page

    if wish["shift"] == "list":
        click.echo("\n".join(shifts(str(wish["task"]))))
        return
    plan, page = DemoPlan(**wish), check_writable(out)  # type: ignore[arg-type]
    click.echo(plan.in_words, err=True)
    demo = demonstrate(plan)
    if as_json:
        values = {
            **asdict(plan),
            "shift": plan.named,
            "candidates": len(demo.dataset.candidates),
            "unchanged": demo.unchanged,
            "rows": [asdict(row) for row in demo.rows],
            "page": str(page),
        }
        click.echo(json.dumps(values))
    else:
        _show(demo)
    write_page(html(demo), page)
    if not as_json:
        click.echo(f"The page with queries, answers and curves: {page}")


def _show(demo: Demo) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{demo.question}\nTop-1 accuracy")
    longest = max(len(row.method) for row in demo.rows)
    table.add_column("queries and method", min_width=len("  ") + longest)
    for heading in ("before", "after", "per query"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in demo.rows:
        first = row.method == "frozen"
        if first:
            table.add_section()
            table.add_row(f"[bold]{demo.described(row)}")
        after = "" if first else f"{row.right_after:.1f} %"
        cost = f"{row.ms_per_query:.1f} ms"
        table.add_row(f"  {row.method}", f"{row.right_before:.1f} %", after, cost)
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "Before: the model as it is (frozen). After: the same model while it adapts to the "
        "queries, without labels. Clean: the queries are not corrupted."
    )
    if demo.unchanged:
        console.print(f"The shift left {demo.unchanged:,} of the queries unchanged.")
