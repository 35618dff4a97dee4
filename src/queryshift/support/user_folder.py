"""Where the library keeps small files of its own between runs."""

from __future__ import annotations

import os
from pathlib import Path


def user_folder() -> Path:
    """$QUERYSHIFT_HOME, else the user's own folder for what applications keep."""
    if home := os.environ.get("QUERYSHIFT_HOME"):
        return Path(home).expanduser()
    base = os.environ.get("XDG_DATA_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".local" / "share") / "queryshift"
