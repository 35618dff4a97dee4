"""The table of all datasets on disk, from `datasets.toml`, and where their folders are."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from queryshift.errors import unknown

from .reading.reader import Reader

HOME = "QUERYSHIFT_DATA"
"""The environment variable that names the folder of all datasets, one folder each."""


class _Datasets(dict[str, Reader]):
    def __missing__(self, name: str) -> Reader:
        raise unknown("dataset", name, self)


def _reader(name: str, parts: dict[str, Any], **facts: Any) -> Reader:
    counts = {
        part: {what: None if count == "unknown" else count for what, count in own.items()}
        for part, own in parts.items()
    }
    return Reader(name=name, parts=counts, **facts)


_FILE = Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8")
DATASETS = _Datasets({name: _reader(name, **facts) for name, facts in tomllib.loads(_FILE).items()})
"""Name to the `Reader` of a dataset on disk: `DATASETS["coco"](root, query="text")`."""


def found_at(name: str, root: str | Path | None = None) -> Path | None:
    """The folder of a dataset: `root`, else the one of that name under $QUERYSHIFT_DATA, if set.

    None if neither is given.
    """
    if root is not None:
        return Path(root)
    home = os.environ.get(HOME)
    return Path(home).expanduser() / name if home else None
