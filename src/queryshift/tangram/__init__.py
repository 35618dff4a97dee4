"""A small world made from seeds: scenes and captions, clips, edits, and other looks of them."""

from queryshift.tangram.captions import captions
from queryshift.tangram.clips import Clip, clips
from queryshift.tangram.edits import Edit, candidates, edits
from queryshift.tangram.scenes import Item, Scene, crayon_scenes, product_scenes, scenes
from queryshift.tangram.styles import CRAYON, DOMAINS, PLAIN, STYLES, Style
from queryshift.tangram.worlds import SPLITS, world_of

__all__ = [
    "CRAYON",
    "DOMAINS",
    "PLAIN",
    "SPLITS",
    "STYLES",
    "Clip",
    "Edit",
    "Item",
    "Scene",
    "Style",
    "candidates",
    "captions",
    "clips",
    "crayon_scenes",
    "edits",
    "product_scenes",
    "scenes",
    "world_of",
]
