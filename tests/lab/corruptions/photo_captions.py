"""Captions to measure text corruptions on: written by hand, and made by a small grammar."""

from itertools import product
from pathlib import Path
from random import Random

WRITTEN = tuple(
    (Path(__file__).parents[2] / "data" / "photo_captions.txt").read_text("utf-8").splitlines()
)

_SIZES = ("", "small ", "large ", "young ", "old ")
_WHO = ("dog", "woman", "boy", "cyclist", "group of children", "worker", "surfer", "horse")
_CLOTHES = ("", " in a red shirt", " with long hair", " wearing sunglasses", " on the left")
_DOES = (
    "is holding an orange umbrella",
    "walks along the beach",
    "jumps over a wooden fence",
    "watching a football match",
    "carries two heavy bags",
    "is sitting on a bench",
    "rides a bicycle",
    "looking at the camera",
)
_WHERE = ("", " near the river", " in the middle of a busy street", " at sunset", " under a tree")


def generated(count: int) -> list[str]:
    """`count` different captions, the same ones every time."""
    pieces = list(product(_SIZES, _WHO, _CLOTHES, _DOES, _WHERE))
    chosen = Random(7).sample(pieces, count)
    return [f"The {size}{who}{look} {does}{where}." for size, who, look, does, where in chosen]
