"""Datasets: each gives queries, candidates, and which candidates are right for a query.

`dataset.py` says what a dataset is, `reading` how one is read, `known_datasets.py` which there are;
`stream_variants.py` makes streams closer to real traffic. Imports: the product, `corruptions`,
`tangram`. Start with `dataset.py`, then `coco_flickr_rsicd.py`. To add one: write its file with a
`read`, and its entry in `datasets.toml`.
"""

from .dataset import Dataset
from .known_datasets import DATASETS, HOME, found_at
from .reading.reader import Reader
from .reading.unreadable_items import usable

__all__ = ["DATASETS", "HOME", "Dataset", "Reader", "found_at", "usable"]
