"""Presets: the image corruptions as in one published source."""

from __future__ import annotations

from pathlib import Path

from queryshift.errors import check_known

from ..corruption import Corruption
from ..lookup import families
from . import mm_robustness
from .frost import Frost

PRESETS = ("imagenet_c", "mm_robustness")


def preset(
    name: str = "imagenet_c", *, textures: str | Path | None = None, clouds: int = 1024
) -> dict[str, Corruption]:
    """All 16 by name, as in one published source; `textures` is a folder of images of frost.

    `clouds` is the side of the fog's map in "mm_robustness": 1024 for COCO, 512 for Flickr.
    """
    check_known("preset", name, PRESETS)
    known = {one.__name__: one for family in families("image").values() for one in family}
    if name == "imagenet_c":
        return known | {"frost": Frost(textures)}
    changed = mm_robustness.deviations(textures, clouds)
    return known | {corruption.__name__: corruption for corruption in changed}
