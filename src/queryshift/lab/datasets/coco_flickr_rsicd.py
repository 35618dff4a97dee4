"""COCO, Flickr30k, RSICD and RSITMD: JSON files in the format of Karpathy and Fei-Fei's splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from queryshift.media.lazy_items import ImageFile

from .dataset import Captioned, Dataset, captioned
from .reading.reader import TEXT, TEXTS, Kind, Reader, find_file, find_folder, read_json, records

COUNTED = ("images", "captions", "pairs")
CAPTIONS = 5  # an image; COCO has some with six or seven, of which all published recalls use five
TRAINING = ("train", "restval")  # COCO's 30,504 left-over validation images are trained on
SENTENCES = Kind(
    'a list of sentences with a "raw" text each',
    lambda value: (
        isinstance(value, list)
        and all(isinstance(each, dict) and TEXT.fits(each.get("raw")) for each in value)
    ),
)


@dataclass(frozen=True)
class Karpathy:
    """The file and folder names of one such dataset."""

    name: str
    annotations: tuple[str, ...]  # names of the one file with all splits
    folders: tuple[str, ...]  # names of the folder that holds the images
    split_file: str | None = None  # name of BLIP's file for a split

    def __call__(self, root: Path, part: str, query: str) -> Dataset:
        """The images of one split with their first five captions."""
        own = () if self.split_file is None else (self.split_file.format(part),)
        path = find_file(root, *self.annotations, *own)
        content, images = read_json(path), find_folder(root, *self.folders)
        if isinstance(content, dict):
            shown = _all_splits(path, content.get("images"), part, images)
        else:
            shown = _one_split(path, content, root)
        return captioned(self.name, shown, query, most=CAPTIONS)


def _all_splits(path: Path, content: Any, part: str, images: Path) -> Sequence[Captioned]:
    wanted = TRAINING if part == "train" else (part,)
    return [
        Captioned(
            PurePosixPath(record["filename"]).stem,
            ImageFile(images / record.get("filepath", "") / record["filename"]),
            [sentence["raw"] for sentence in record["sentences"]],
        )
        for record in records(path, content, filename=TEXT, split=TEXT, sentences=SENTENCES)
        if record["split"] in wanted
    ]


def _one_split(path: Path, content: Any, root: Path) -> Sequence[Captioned]:
    return [
        Captioned(
            PurePosixPath(record["image"]).stem,
            ImageFile(root / record["image"]),
            record["caption"],
        )
        for record in records(path, content, image=TEXT, caption=TEXTS)
    ]


def _reader(
    parts: Mapping[str, tuple[int, int, int | None]], paper: tuple[int, int], files: Karpathy
) -> Reader:
    """A dataset with images, captions and pairs of each split; the paper uses its test split."""
    named = {part: dict(zip(COUNTED, counts, strict=True)) for part, counts in parts.items()}
    in_paper = dict(zip(COUNTED, paper, strict=False))
    return Reader(files.name, ("image", "text"), named, files, ("test",), in_paper)


# Counted from dataset_coco.json by its users: 113,287 + 5,000 + 5,000 of the 123,287 images and
# 566,747 + 25,010 + 25,010 of the 616,767 captions of COCO 2014. The paper cuts to five captions.
COCO = _reader(
    {
        "test": (5_000, 25_010, 25_000),
        "val": (5_000, 25_010, 25_000),
        "train": (113_287, 566_747, None),
    },
    (5_000, 25_000),
    Karpathy("coco", ("dataset_coco.json",), ("images", ""), "coco_karpathy_{}.json"),
)
# Five captions an image. Karpathy's file has 31,014 of Flickr30k's 31,783 images.
FLICKR30K = _reader(
    {
        "test": (1_000, 5_000, 5_000),
        "val": (1_014, 5_070, 5_070),
        "train": (29_000, 145_000, 145_000),
    },
    (1_000, 5_000),
    Karpathy(
        "flickr30k",
        ("dataset_flickr30k.json",),
        ("flickr30k-images", "flickr30k_images", "images", ""),
        "flickr30k_{}.json",
    ),
)
# 10,921 images with 54,605 captions. The paper has 1,000 test images: which, it does not say.
RSICD = _reader(
    {"test": (1_093, 5_465, 5_465), "val": (1_094, 5_470, 5_470), "train": (8_734, 43_670, 43_670)},
    (1_000, 5_000),
    Karpathy("rsicd", ("dataset_rsicd.json",), ("RSICD_images", "images", "")),
)
# 4,743 images with 23,715 captions. The paper has 450 test images: which, it does not say.
RSITMD = _reader(
    {"test": (452, 2_260, 2_260), "train": (4_291, 21_455, 21_455)},
    (450, 2_250),
    Karpathy(
        "rsitmd", ("dataset_RSITMD.json", "dataset_rsitmd.json"), ("images", "RSITMD_images", "")
    ),
)
