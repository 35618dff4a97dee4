"""Import optional packages when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from queryshift.errors import missing

PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn"}  # where a module has another name


def need(module: str, extra: str, purpose: str) -> Any:
    """Import a module; the error says which extra of queryshift installs it.

    Args:
        module: its name, such as "soundfile" or "PIL.Image".
        extra: the extra that installs it.
        purpose: what needs it; the error starts with these words.

    Examples:
        >>> need("json", "lab", "reading labels").loads("[1, 2]")
        [1, 2]
    """
    try:
        return import_module(module)
    except ImportError as error:
        top = module.partition(".")[0]
        raise missing(PACKAGES.get(top, top), extra, purpose) from error
