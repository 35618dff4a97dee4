"""ESC-50 (Piczak, 2015): recordings of fifty kinds of sounds, in five folds.

Recordings ask for sentences made from the names of the classes. The fifth fold is for tests, the
fourth for development, with a model that was trained on the other three.
"""

from __future__ import annotations

import csv
from pathlib import Path

from queryshift.errors import BadFile
from queryshift.media.lazy_items import AudioFile

from .dataset import Dataset, of_classes
from .reading.reader import find_file, read_lines

FOLDS = {"test": "5", "dev": "4", "train": "1234", "train-dev": "123"}
TEMPLATES = ("{}", "the sound of {}", "a recording of {}")


def read(name: str, root: Path, part: str, query: str) -> Dataset:
    """Read the recordings of a part's folds, and sentences on all classes."""
    path = find_file(root, "meta/esc50.csv")
    rows = list(csv.DictReader(read_lines(path)))
    if not rows or not {"filename", "fold", "category"} <= set(rows[0]):
        raise BadFile(f'"{path}" lacks the columns filename, fold and category: another file?')
    classes = sorted({row["category"] for row in rows})
    items = [
        (Path(row["filename"]).stem, AudioFile(root / "audio" / row["filename"]), row["category"])
        for row in rows
        if row["fold"] in FOLDS[part]
    ]
    return of_classes(name, "audio", items, classes, TEMPLATES)
