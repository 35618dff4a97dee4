"""`queryshift gallery`: galleries in search engines, checked."""

from __future__ import annotations

import click

from .gallery_check import check


@click.group()
def command() -> None:
    """Check galleries in search engines."""


command.add_command(check)
