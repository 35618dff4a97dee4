"""Flickr30k (Young et al., 2014) in Karpathy's splits."""

from __future__ import annotations

from .reading.karpathy import Karpathy
from .reading.reader import Reader

# Five captions an image. Karpathy's file has 31,014 of Flickr30k's 31,783 images.
READER = Reader(
    name="flickr30k",
    asks=("image", "text"),
    parts={
        "test": {"images": 1_000, "captions": 5_000, "pairs": 5_000},
        "val": {"images": 1_014, "captions": 5_070, "pairs": 5_070},
        "train": {"images": 29_000, "captions": 145_000, "pairs": 145_000},
    },
    paper_parts=("test",),
    paper={"images": 1_000, "captions": 5_000},
    read=Karpathy(
        "flickr30k",
        ("dataset_flickr30k.json",),
        ("flickr30k-images", "flickr30k_images", "images", ""),
        split_file="flickr30k_{}.json",
    ),
)
