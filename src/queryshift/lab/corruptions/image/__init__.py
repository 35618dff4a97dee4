"""The 16 image corruptions, from RGB bytes or a Pillow image to the same.

`FAMILIES` holds the `imagenet_c` forms; `preset` in `presets.py` gives those of either published
source. Imports: `corruption`, `lookup` and `names` of `corruptions`. Start with `noise.py`; all
files share `pixels.py`.
"""

from __future__ import annotations

from ..corruption import Corruption
from .blur import defocus_blur, glass_blur, motion_blur, zoom_blur
from .digital import contrast, elastic, jpeg, pixelate
from .digital import elastic_pixels as elastic_pixels
from .frost import Frost as Frost
from .frost import frost
from .noise import gaussian_noise, impulse_noise, shot_noise, speckle_noise
from .presets import PRESETS as PRESETS
from .presets import preset as preset
from .weather import brightness, fog, snow

FAMILIES: dict[str, tuple[Corruption, ...]] = {
    "noise": (gaussian_noise, shot_noise, impulse_noise, speckle_noise),
    "blur": (defocus_blur, glass_blur, motion_blur, zoom_blur),
    "weather": (snow, frost, fog, brightness),
    "digital": (contrast, elastic, pixelate, jpeg),
}
