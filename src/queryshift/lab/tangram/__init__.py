"""A small world made from seeds: scenes and captions, clips, edits, and other looks of them.

`model.py` and `towers.py` are the bundled models of it.
Imports: the product. Start with `scenes.py`.
"""

from .clips import Clip, clips
from .edits import candidates, edits
from .scene_captions import captions
from .scenes import Scene, crayon_scenes, product_scenes, scenes
from .styles import CRAYON, DOMAINS, PLAIN, STYLES
from .worlds import SPLITS, belongs

__all__ = [
    "CRAYON",
    "DOMAINS",
    "PLAIN",
    "SPLITS",
    "STYLES",
    "Clip",
    "Scene",
    "belongs",
    "candidates",
    "captions",
    "clips",
    "crayon_scenes",
    "edits",
    "product_scenes",
    "scenes",
]
