"""`queryshift gallery`: galleries in files and search engines, built and checked."""

from __future__ import annotations

import click

from .gallery_build import build
from .gallery_check import check


@click.group()
def command() -> None:
    """Build galleries from items, and check those in search engines."""


command.add_command(build)
command.add_command(check)
