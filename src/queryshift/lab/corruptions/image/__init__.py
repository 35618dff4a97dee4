"""The 16 image corruptions, from RGB bytes or a Pillow image to the same.

`FAMILIES` holds the `imagenet_c` forms. `preset` gives the forms of either published source, by
name, and takes a folder of photographs for frost. Imports: `corruption` and `names` of
`corruptions`. Start with `noise.py`; all files share `pixels.py`.
"""

from __future__ import annotations

from pathlib import Path

from queryshift.errors import check_known

from ..corruption import Corruption
from . import mm_robustness
from .blur import defocus_blur, glass_blur, motion_blur, zoom_blur
from .digital import contrast, elastic, jpeg, pixelate
from .digital import elastic_pixels as elastic_pixels
from .frost import Frost, frost
from .noise import gaussian_noise, impulse_noise, shot_noise, speckle_noise
from .weather import brightness, fog, snow

PRESETS = ("imagenet_c", "mm_robustness")

FAMILIES: dict[str, tuple[Corruption, ...]] = {
    "noise": (gaussian_noise, shot_noise, impulse_noise, speckle_noise),
    "blur": (defocus_blur, glass_blur, motion_blur, zoom_blur),
    "weather": (snow, frost, fog, brightness),
    "digital": (contrast, elastic, pixelate, jpeg),
}


def preset(
    name: str = "imagenet_c", *, textures: str | Path | None = None, clouds: int = 1024
) -> dict[str, Corruption]:
    """All 16 by name, as in one published source; `textures` is a folder of images of frost.

    `clouds` is the side of the fog's map in "mm_robustness": 1024 for COCO, 512 for Flickr.
    """
    check_known("preset", name, PRESETS)
    known = {
        corruption.__name__: corruption for family in FAMILIES.values() for corruption in family
    }
    if name == "imagenet_c":
        return known | {"frost": Frost(textures)}
    changed = mm_robustness.deviations(textures, clouds)
    return known | {corruption.__name__: corruption for corruption in changed}
