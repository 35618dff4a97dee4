"""COCO captions (Lin et al., 2014) in Karpathy's splits."""

from __future__ import annotations

from .reading.karpathy import Karpathy
from .reading.reader import Reader

# Counted from dataset_coco.json by its users: 113,287 + 5,000 + 5,000 of the 123,287 images and
# 566,747 + 25,010 + 25,010 of the 616,767 captions of COCO 2014. The paper cuts to five captions.
READER = Reader(
    name="coco",
    asks=("image", "text"),
    parts={
        "test": {"images": 5_000, "captions": 25_010, "pairs": 25_000},
        "val": {"images": 5_000, "captions": 25_010, "pairs": 25_000},
        "train": {"images": 113_287, "captions": 566_747, "pairs": None},
    },
    paper_parts=("test",),
    paper={"images": 5_000, "captions": 25_000},
    read=Karpathy(
        "coco", ("dataset_coco.json",), ("images", ""), split_file="coco_karpathy_{}.json"
    ),
)
