"""The option `--column ROLE=NAME` of commands that read tables."""

from __future__ import annotations

import click


def columns_given(
    ctx: click.Context, option: click.Parameter, value: tuple[str, ...]
) -> dict[str, str]:
    """The columns by role."""
    pairs = [pair.partition("=") for pair in value]
    for role, equals, name in pairs:
        if not (role and equals and name):
            raise click.BadParameter(f"{role!r}: expected ROLE=NAME, such as id=sku.")
    return {role: name for role, _, name in pairs}
