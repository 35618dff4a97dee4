"""Datasets: each gives queries, candidates, and which candidates are right for a query.

`dataset.py` says what a dataset is, `reading` how one is read. Imports: the product,
`corruptions`, `tangram`. Start with `dataset.py`, then `coco_flickr_rsicd.py`. To add one: write
its file with a `READER`, and its entry in `datasets.toml`.
"""

import os
from pathlib import Path

from queryshift.support.registry import Table

from .dataset import Dataset
from .reading.reader import FACTS, Reader
from .reading.unreadable_items import usable

__all__ = ["DATASETS", "HOME", "Dataset", "Reader", "found_at", "usable"]

HOME = "QUERYSHIFT_DATA"
"""The environment variable that names the folder of all datasets, one folder each."""

DATASETS: Table[Reader] = Table(
    "dataset",
    {
        name: f"{__name__}.{facts.get('reader', name.replace('-', '_') + ':READER')}"
        for name, facts in FACTS.items()
    },
)
"""Name to the `Reader` of a dataset on disk: `DATASETS["coco"](root, query="text")`."""


def found_at(name: str, root: str | Path | None = None) -> Path | None:
    """The folder of a dataset: `root`, else the one of that name under $QUERYSHIFT_DATA, if set.

    None if neither is given.
    """
    if root is not None:
        return Path(root)
    home = os.environ.get(HOME)
    return Path(home).expanduser() / name if home else None
