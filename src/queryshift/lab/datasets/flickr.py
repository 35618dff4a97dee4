"""Flickr30k (Young et al., 2014) and Flickr8k (Hodosh et al., 2013) in Karpathy's splits."""

from __future__ import annotations

from .karpathy import Karpathy
from .reader import Reader

# Five captions a picture. Karpathy's file has 31,014 of Flickr30k's 31,783 pictures.
FLICKR30K = Reader(
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

# 8,000 of the 8,092 pictures are in a split. The paper does not use it.
FLICKR8K = Reader(
    name="flickr8k",
    asks=("image", "text"),
    parts={
        "test": {"images": 1_000, "captions": 5_000, "pairs": 5_000},
        "val": {"images": 1_000, "captions": 5_000, "pairs": 5_000},
        "train": {"images": 6_000, "captions": 30_000, "pairs": 30_000},
    },
    paper_parts=(),
    paper={},
    read=Karpathy(
        "flickr8k",
        ("dataset_flickr8k.json",),
        ("Flicker8k_Dataset", "Flickr8k_Dataset", "images", ""),  # the first spelling is theirs
    ),
)
