"""ESC-50 (Piczak, 2015): recordings of fifty kinds of sounds, in five folds.

Recordings ask for sentences made from the names of the classes. The fifth fold is for tests, the
fourth for development, with a model that was trained on the other three.
"""

from __future__ import annotations

import csv
from pathlib import Path

from queryshift.errors import BadFile
from queryshift.media.lazy_items import AudioFile, LazyItems

from .dataset import Dataset
from .reading.reader import Reader, find_file

FOLDS = {"test": "5", "dev": "4", "train": "1234", "train-dev": "123"}
TEMPLATES = ("{}", "the sound of {}", "a recording of {}")


def read(root: Path, part: str, query: str) -> Dataset:
    """The recordings of a part's folds, and sentences on all classes."""
    listed = _listed(find_file(root, "meta/esc50.csv"))
    classes = sorted({row["category"] for row in listed})
    heard = [row for row in listed if row["fold"] in FOLDS[part]]
    own, each = [classes.index(row["category"]) for row in heard], len(TEMPLATES)
    return Dataset(
        "esc50",
        "audio",
        "text",
        queries=LazyItems([AudioFile(root / "audio" / row["filename"]) for row in heard]),
        query_ids=[Path(row["filename"]).stem for row in heard],
        candidates=[form.format(kind.replace("_", " ")) for kind in classes for form in TEMPLATES],
        matches=[range(each * kind, each * (kind + 1)) for kind in own],
        labels=[row["category"] for row in heard],
        counts={
            "audio": len(heard),
            "captions": each * len(classes),
            "pairs": each * len(heard),
        },
    )


def _listed(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError) as error:
        raise BadFile(f'"{path}" cannot be read as CSV ({error}).') from error
    if not rows or not {"filename", "fold", "category"} <= set(rows[0]):
        raise BadFile(f'"{path}" lacks the columns filename, fold and category: another file?')
    return rows


READER = Reader(
    name="esc50",
    asks=("audio",),
    parts={
        "test": {"audio": 400, "captions": 150, "pairs": 1_200},
        "dev": {"audio": 400, "captions": 150, "pairs": 1_200},
        "train": {"audio": 1_600, "captions": 150, "pairs": 4_800},
        "train-dev": {"audio": 1_200, "captions": 150, "pairs": 3_600},
    },
    read=read,
    source="It is the repository github.com/karolpiczak/ESC-50.",
)
