"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from queryshift.errors import Error, unknown

if TYPE_CHECKING:
    from queryshift.lab.evaluation.runner.plans import Choices

    _Choice = click.Choice[str]
else:  # not generic before click 8.2
    _Choice = click.Choice

PATH = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path, file_okay=False)
COUNT = click.IntRange(min=1)
CONTINUE = "Stopped: run the same command again to continue."
INTERRUPTED = 130  # exit code after Ctrl-C, as in shells

strict_option = click.option(
    "--strict", is_flag=True, help="Stop at the first unusable row instead of leaving it out."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


columns_option = click.option(
    "--column",
    "columns",
    multiple=True,
    callback=lambda ctx, option, pairs: _columns(pairs),
    metavar="ROLE=NAME",
    help="The column of a role, such as id=sku; can be repeated.",
)


@contextmanager
def interruptible(said: Callable[[], str]) -> Iterator[None]:
    """After Ctrl-C, print a sentence that says what is kept, and exit with the usual code."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(said(), err=True)
        raise SystemExit(INTERRUPTED) from None


class Group(click.Group):
    """Commands of which the nearest are suggested for a wrong name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` name, or raise an error that names those nearest to it."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise click.UsageError(str(unknown("command", args[0], known)), ctx)
        return super().resolve_command(ctx, args)


class KnownName(_Choice):
    """One of `names`, each of which is a `kind`; for a wrong one, the nearest are suggested."""

    def __init__(self, kind: str, names: Iterable[str]) -> None:
        super().__init__(list(names))
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or raise an error that names those nearest to it."""
        if value not in self.choices:
            raise click.UsageError(str(unknown(self.kind, value, self.choices)), ctx)
        return str(value)


def _columns(given: tuple[str, ...]) -> dict[str, str]:
    """Columns by role, from `--column ROLE=NAME`."""
    pairs = [pair.partition("=") for pair in given]
    for role, equals, name in pairs:
        if not (role and equals and name):
            raise click.BadParameter(f"{role!r}: expected ROLE=NAME, such as id=sku.")
    return {role: name for role, _, name in pairs}


def benchmark_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of all commands that run a benchmark: see `choices_from`."""
    for option in (
        click.option("--device", help="cpu, cuda, ...  [default: the GPU, if there is one]"),
        click.option(
            "--preprocessing",
            type=click.Choice(["published", "library"]),
            help="Read items as in the paper (default on its benchmarks), or as the model's "
            "library does.",
        ),
        click.option(
            "--translator",
            nargs=2,
            metavar="THERE BACK",
            help="The two models for back-translation.",
        ),
        click.option(
            "--root", type=FOLDER, help="Folder of the dataset.  [default: $QUERYSHIFT_DATA/NAME]"
        ),
        click.option(
            "--model", default="", help="A name, a path or module:function.  [default: the paper's]"
        ),
    ):
        command = option(command)
    return command


def choices_from(given: dict[str, Any]) -> Choices:
    """Take the choices of a run out of the options that a command was given."""
    from queryshift.lab.evaluation.runner.machine import best_device
    from queryshift.lab.evaluation.runner.plans import Choices

    known = {field.name: given.pop(field.name) for field in fields(Choices) if field.name in given}
    chosen = {name: value for name, value in known.items() if value is not None}
    return Choices(**{"device": best_device(), **chosen})


def traceback_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add --traceback, which shows where an error in a user's own encoder comes from."""

    @click.option("--traceback", is_flag=True, help="Show where your own encoder fails.")
    @wraps(command)
    def run(*given: Any, traceback: bool, **named: Any) -> None:
        try:
            command(*given, **named)
        except Error as error:
            if traceback and error.__cause__ is not None:
                raise error.__cause__ from None
            raise

    return run


def reference_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add --reference, with its old name --ordinary hidden."""

    @click.option(
        "--reference", type=PATH, help="Queries from before the shift, to measure its size."
    )
    @click.option("--ordinary", type=PATH, hidden=True)
    @wraps(command)
    def run(*given: Any, reference: Path | None, ordinary: Path | None, **named: Any) -> None:
        if ordinary is not None:
            click.echo("Warning: --ordinary is now --reference; use the new name.", err=True)
        command(*given, reference=reference or ordinary, **named)

    return run
