"""Paths as users write them: what the system cannot even look for is not there."""

from __future__ import annotations

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
