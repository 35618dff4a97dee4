"""Images from above: RSICD (Lu et al., 2018) and RSITMD (Yuan et al., 2022)."""

from __future__ import annotations

from .reading.karpathy import Karpathy
from .reading.reader import Reader

# 10,921 images with 54,605 captions. The paper has 1,000 test images: which, it does not say.
RSICD = Reader(
    name="rsicd",
    asks=("image", "text"),
    parts={
        "test": {"images": 1_093, "captions": 5_465, "pairs": 5_465},
        "val": {"images": 1_094, "captions": 5_470, "pairs": 5_470},
        "train": {"images": 8_734, "captions": 43_670, "pairs": 43_670},
    },
    paper_parts=("test",),
    paper={"images": 1_000, "captions": 5_000},
    read=Karpathy("rsicd", ("dataset_rsicd.json",), ("RSICD_images", "images", "")),
)

# 4,743 images with 23,715 captions. The paper has 450 test images: which, it does not say.
RSITMD = Reader(
    name="rsitmd",
    asks=("image", "text"),
    parts={
        "test": {"images": 452, "captions": 2_260, "pairs": 2_260},
        "train": {"images": 4_291, "captions": 21_455, "pairs": 21_455},
    },
    paper_parts=("test",),
    paper={"images": 450, "captions": 2_250},
    read=Karpathy(
        "rsitmd", ("dataset_RSITMD.json", "dataset_rsitmd.json"), ("images", "RSITMD_images", "")
    ),
)
