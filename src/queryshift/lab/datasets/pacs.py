"""PACS (Li et al., 2017): photographs, paintings, cartoons and sketches of seven kinds of things.

Images ask for sentences made from the names of the classes. A part is one domain, of which three
in ten images are for development.
"""

from __future__ import annotations

from pathlib import Path

from queryshift.media.lazy_items import ImageFile, LazyItems

from .dataset import Dataset
from .reading.reader import Reader, developed, find_folder

CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
TEMPLATES = ("a {}", "a photo of a {}", "a picture of a {}", "there is a {}", "one {} is shown")
ENDINGS = (".jpg", ".png")
DEVELOPED = 0.3  # of the images


def read(root: Path, part: str, query: str) -> Dataset:
    """The images of a domain, and the same sentences for all domains."""
    domain, _, side = part.partition("-")
    home = find_folder(root, "PACS", "kfold", "") / domain
    shown = [
        (row, path)
        for row, kind in enumerate(CLASSES)
        for path in sorted((home / kind).glob("*"))
        if path.suffix.lower() in ENDINGS and developed(path.name, DEVELOPED) == (side == "dev")
    ]
    each = len(TEMPLATES)
    return Dataset(
        "pacs",
        "image",
        "text",
        queries=LazyItems([ImageFile(path) for _, path in shown]),
        query_ids=[f"{CLASSES[row]}/{path.stem}" for row, path in shown],
        candidates=[form.format(kind) for kind in CLASSES for form in TEMPLATES],
        matches=[range(each * row, each * (row + 1)) for row, _ in shown],
        labels=[CLASSES[row] for row, _ in shown],
        counts={"images": len(shown), "captions": each * len(CLASSES), "pairs": each * len(shown)},
    )


READER = Reader(
    name="pacs",
    asks=("image",),
    parts={
        "photo": {"images": 1_194, "captions": 35, "pairs": 5_970},
        "art_painting": {"images": 1_494, "captions": 35, "pairs": 7_470},
        "cartoon": {"images": 1_690, "captions": 35, "pairs": 8_450},
        "sketch": {"images": 2_763, "captions": 35, "pairs": 13_815},
        "photo-dev": {"images": 476, "captions": 35, "pairs": 2_380},
        "art_painting-dev": {"images": 554, "captions": 35, "pairs": 2_770},
        "cartoon-dev": {"images": 654, "captions": 35, "pairs": 3_270},
        "sketch-dev": {"images": 1_166, "captions": 35, "pairs": 5_830},
    },
    read=read,
    source="The images lie in the folder PACS of github.com/MachineLearning2020/Homework3-PACS.",
)
