"""Paths as users write them, and where the library keeps small files of its own."""

from __future__ import annotations

import os
from pathlib import Path


def user_path(given: str | Path) -> Path:
    """The path, with a leading `~` for a user's home; of a user that is not known it stays."""
    try:
        return Path(given).expanduser()
    except RuntimeError:
        return Path(given)


def is_there(path: Path) -> bool:
    """Whether there is a file or folder; a name that is too long has none, nor has a closed one."""
    try:
        return path.exists()
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Whether there is a file, by the same rule."""
    return is_there(path) and path.is_file()


def user_folder() -> Path:
    """$QUERYSHIFT_HOME, else the user's own folder for what applications keep."""
    if home := os.environ.get("QUERYSHIFT_HOME"):
        return Path(home).expanduser()
    base = os.environ.get("XDG_DATA_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".local" / "share") / "queryshift"
