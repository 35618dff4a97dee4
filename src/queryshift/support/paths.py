"""Paths as users write them, and the user's folder for files of the library."""

from __future__ import annotations

import os
from pathlib import Path


def user_path(given: str | Path) -> Path:
    """Expand a leading `~`; leave it if the user is unknown."""
    try:
        return Path(given).expanduser()
    except RuntimeError:
        return Path(given)


def is_there(path: Path) -> bool:
    """Return whether a file or folder exists; False too if it cannot be read or named."""
    try:
        return path.exists()
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Return whether a file exists, by the same rule."""
    return is_there(path) and path.is_file()


def user_folder() -> Path:
    """Return $QUERYSHIFT_HOME, else the user's folder for application data."""
    if home := os.environ.get("QUERYSHIFT_HOME"):
        return Path(home).expanduser()
    base = os.environ.get("XDG_DATA_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".local" / "share") / "queryshift"
