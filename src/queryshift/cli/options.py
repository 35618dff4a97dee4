"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from queryshift.errors import Error, unknown

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:  # not generic before click 8.2
    _Choice = click.Choice

strict_option = click.option(
    "--strict", is_flag=True, help="Stop at a row that cannot be used; else it is left out."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


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


def columns_given(
    ctx: click.Context, option: click.Parameter, value: tuple[str, ...]
) -> dict[str, str]:
    """Read `--column ROLE=NAME` into columns by role."""
    pairs = [pair.partition("=") for pair in value]
    for role, equals, name in pairs:
        if not (role and equals and name):
            raise click.BadParameter(f"{role!r}: expected ROLE=NAME, such as id=sku.")
    return {role: name for role, _, name in pairs}


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
    path = click.Path(path_type=Path)

    @click.option("--reference", type=path, help="Queries from before any shift, for advice.")
    @click.option("--ordinary", type=path, hidden=True)
    @wraps(command)
    def run(*given: Any, reference: Path | None, ordinary: Path | None, **named: Any) -> None:
        if ordinary is not None:
            click.echo("Warning: --ordinary is now --reference; use the new name.", err=True)
        command(*given, reference=reference or ordinary, **named)

    return run
