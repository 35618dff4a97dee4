"""`queryshift demo`: see adaptation work on the embedded world."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from queryshift.lab.datasets.tangram_tasks import TASKS

from .known_name import KnownName

if TYPE_CHECKING:
    from rich.table import Table

    from queryshift.lab.demo import Demo


@click.command()
@click.option(
    "--task",
    type=KnownName("task", TASKS),
    default="image",
    show_default=True,
    help="What is asked.",
)
@click.option(
    "--shift",
    help='What happens to the queries, such as fog; "diverse": something else to each; '
    '"list": all names for the task.',
)
@click.option("--severity", type=int, default=3, show_default=True, help="1 to 5.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of all random draws.")
@click.option("--queries", type=int, default=1024, show_default=True, help="Shifted ones.")
@click.option("--quick", is_flag=True, help="A small stream of few methods, in about 15 s.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for other programs.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default="queryshift-demo.html",
    show_default=True,
    help="Where the page with pictures and curves goes.",
)
def command(as_json: bool, out: Path, **wish: object) -> None:
    """Ask shifted and clean queries with and without adaptation, and compare.

    The first answer is right if it belongs to the query: nothing is downloaded, everything is
    made from the seed. It says how long it takes: about a minute for pictures on two cores,
    longer for sounds and video. The third example below takes a minute; the first answer is
    right for 32 % of the queries before, and for 47 % with rest.

    \b
    $ queryshift demo
    $ queryshift demo --quick
    $ queryshift demo --shift motion_blur --queries 512
    $ queryshift demo --shift diverse --json
    """
    from queryshift.lab.demo import DemoPlan, demonstrate, place_for, shifts, write

    if wish["shift"] == "list":
        click.echo("\n".join(shifts(str(wish["task"]))))
        return
    plan, page = DemoPlan(**wish), place_for(out)  # type: ignore[arg-type]
    click.echo(plan.in_words, err=True)
    demo = demonstrate(plan)
    if as_json:
        click.echo(json.dumps(_numbers(demo, page)))
    else:
        _show(demo)
    write(demo, page)
    if not as_json:
        click.echo(f"Queries, answers and curves: {page}")


def _numbers(demo: Demo, page: Path) -> dict[str, object]:
    return {
        **asdict(demo.plan),
        "shift": demo.plan.named,
        "candidates": len(demo.dataset.candidates),
        "unchanged": demo.unchanged,
        "rows": [asdict(row) for row in demo.rows],
        "page": str(page),
    }


def _show(demo: Demo) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(_table(demo))
    console.print(
        "Before: the model as it is (frozen). After: the same model while it adapts to the queries "
        "it gets, told no right answer. Clean: nothing is wrong with the queries."
    )
    if demo.unchanged:
        console.print(f"The shift found nothing to change in {demo.unchanged:,} of the queries.")


def _table(demo: Demo) -> Table:
    from rich.table import Table

    title = f"{demo.question}\nHow often was the first answer right?"
    table = Table(title=title)
    longest = max(len(row.method) for row in demo.rows)
    table.add_column("what was asked, and who answered", min_width=len("  ") + longest)
    for heading in ("before", "after", "per query"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in demo.rows:
        first = row.method == "frozen"
        if first:
            table.add_section()
            table.add_row(f"[bold]{demo.described(row)}")
        table.add_row(
            f"  {row.method}",
            f"{row.right_before:.1f} %",
            "" if first else f"{row.right_after:.1f} %",
            f"{row.ms_per_query:.1f} ms",
        )
    return table
