"""The command line: one file per command, each loaded only when it is used.

Imports: all other folders. Start with `run.py`; a command parses, calls the library and prints.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EPIPE
from importlib import import_module
from typing import Any

import click

from queryshift import __version__
from queryshift.errors import Error
from queryshift.support.progress import IN_LINES

from .options import Group, interruptible

COMMANDS = {
    "demo": "See the effect on a small bundled model: a table and an HTML page.",
    "corrupt": "Corrupt images, texts, audio or video, to make shifted queries.",
    "figure": "Draw one of the paper's figures, and test its claim.",
    "data": "Check datasets on disk, and extract frames and audio from videos.",
    "list": "List benchmarks, methods, models, corruptions or datasets.",
    "gallery": "Build a gallery in a file or a search engine, or check its index.",
    "models": "Check that a model works: its encoders, sizes and problems.",
    "evaluate": "Measure what adaptation does to your own queries.",
    "tune": "Find a learning rate and a temperature for your queries.",
    "serve": "Start the HTTP service for many tenants, with a web page.",
    "run": "Run methods on a benchmark, and keep each finished result.",
    "report": "Make tables from finished runs, with significance tests.",
}


@contextmanager
def _plain_output() -> Iterator[None]:
    """Progress goes to pipes and logs too; a warning is its sentence, not a line of some file."""

    def tell(message: Warning | str, *given: object, **named: object) -> None:
        click.echo(f"Warning: {message}", err=True)

    in_lines = IN_LINES.set(True)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = tell
            yield
    finally:
        IN_LINES.reset(in_lines)


class _Refused(click.ClickException):
    """What the library refuses has the exit code of what click refuses."""

    exit_code = click.UsageError.exit_code


class _Commands(Group):
    """Commands found in `COMMANDS`; errors of ours and of the system become a sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"{__name__}.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _plain_output(), interruptible(lambda: "Stopped."):
                return super().invoke(ctx)
        except Error as error:
            raise _Refused(str(error)) from error
        except OSError as error:  # no such folder, no right to write, no room on the disk
            if error.errno in (None, EPIPE):  # click ends quietly when the reader is gone
                raise
            place = f'"{error.filename}": ' if error.filename else ""
            raise click.ClickException(f"{place}{error.strerror}.") from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="queryshift")
def main() -> None:
    """Adapt your retrieval model to the queries it gets, online and without labels.

    \b
    $ queryshift demo
    $ queryshift evaluate --gallery documents.npy --queries queries.npy
    """
