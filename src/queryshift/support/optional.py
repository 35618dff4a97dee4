"""Optional packages, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from queryshift.errors import missing

PACKAGES = {"PIL": "pillow"}  # what a module is installed as, where its name is another


def need(module: str, extra: str, purpose: str) -> Any:
    """The module, or an error that says which extra of queryshift brings it.

    Args:
        module: its name, such as "soundfile" or "PIL.Image".
        extra: the extra that installs it.
        purpose: what needs it, the first words of the error.

    Examples:
        >>> need("json", "lab", "reading labels").loads("[1, 2]")
        [1, 2]
    """
    try:
        return import_module(module)
    except ImportError as error:
        top = module.partition(".")[0]
        raise missing(PACKAGES.get(top, top), extra, purpose) from error
