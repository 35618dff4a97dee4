"""Render an HTML page from its template, and write it whole or not at all."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from queryshift.errors import BadInput
from queryshift.support.atomic_files import replacing

from .svg_curves import FRAME


def render(name: str, **values: Any) -> str:
    """Render the page `templates/NAME.html`; text is escaped, an unknown name is an error."""
    return _environment().get_template(f"{name}.html").render(frame=FRAME, **values)


def check_writable(path: Path) -> Path:
    """Return the absolute path of a page, and fail early if it cannot be written there."""
    path = Path(path).resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=path.parent).close()
        if path.exists():
            path.open("a").close()
    except OSError as problem:
        raise BadInput(
            f'no page can be written to "{path}" ({problem.strerror}): '
            "name a file in a folder of yours, with --out on the command line."
        ) from problem
    return path


def write_page(html: str, path: Path) -> Path:
    """Write a page, whole or not at all, and return its absolute path."""
    path = check_writable(path)
    with replacing(path) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return path


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
