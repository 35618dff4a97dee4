"""An argument that is one of a few names; for a wrong one, the nearest are suggested."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from queryshift.errors import unknown

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:  # not generic before click 8.2
    _Choice = click.Choice


class KnownName(_Choice):
    """One of `names`, each of which is a `kind`."""

    def __init__(self, kind: str, names: Iterable[str]) -> None:
        super().__init__(list(names))
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is, or an error that names those nearest to it."""
        if value not in self.choices:
            raise click.UsageError(str(unknown(self.kind, value, self.choices)), ctx)
        return str(value)
