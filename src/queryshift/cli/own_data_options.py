"""Options of commands that read a user's own data and run a user's own code."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from queryshift.errors import Error

strict_option = click.option(
    "--strict", is_flag=True, help="A row that cannot be used is an error; else it is left out."
)


def traceback_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add --traceback: where an error of a user's own encoder comes from."""

    @click.option("--traceback", is_flag=True, help="Show where your own encoder fails.")
    @wraps(command)
    def told(*given: Any, traceback: bool, **named: Any) -> None:
        try:
            command(*given, **named)
        except Error as error:
            if traceback and error.__cause__ is not None:
                raise error.__cause__ from None
            raise

    return told
