"""Captions of scenes, with several words for each shape, colour, size, fill and place."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from .scenes import Item, Scene
from .styles import Style
from .worlds import distinct, take

WORDS: Mapping[str, tuple[str, ...]] = {
    "circle": ("circle", "circle", "disc", "round"),
    "square": ("square", "square", "box", "block"),
    "triangle": ("triangle", "triangle", "wedge", "pyramid"),
    "diamond": ("diamond", "diamond", "rhombus", "lozenge"),
    "hexagon": ("hexagon", "hexagon", "six-sided shape", "honeycomb cell"),
    "star": ("star", "star", "five-pointed star", "starlet"),
    "cross": ("cross", "cross", "plus sign", "plus"),
    "heart": ("heart", "heart", "love heart", "valentine"),
    "moon": ("moon", "moon", "crescent", "half-moon"),
    "arrow": ("arrow", "arrow", "pointer", "arrowhead"),
    "red": ("red", "red", "crimson", "scarlet"),
    "orange": ("orange", "orange", "amber", "tangerine"),
    "yellow": ("yellow", "yellow", "golden", "lemon"),
    "green": ("green", "green", "emerald", "grassy"),
    "teal": ("teal", "teal", "turquoise", "cyan"),
    "blue": ("blue", "blue", "cobalt", "azure"),
    "purple": ("purple", "purple", "violet", "plum"),
    "pink": ("pink", "pink", "rosy", "magenta"),
    "brown": ("brown", "brown", "chocolate", "chestnut"),
    "black": ("black", "black", "ebony", "jet-black"),
    "small": ("small", "small", "little", "tiny"),
    "medium": ("medium", "medium", "mid-sized", "average"),
    "large": ("large", "large", "big", "huge"),
    "solid": ("solid", "solid", "filled", "plain"),
    "outlined": ("outlined", "outlined", "hollow", "empty"),
    "striped": ("striped", "striped", "stripy", "lined"),
    "dotted": ("dotted", "dotted", "spotted", "speckled"),
    "top left": ("top left", "upper left", "top left corner"),
    "top centre": ("top centre", "top", "upper middle"),
    "top right": ("top right", "upper right", "top right corner"),
    "middle left": ("middle left", "left", "left edge"),
    "middle centre": ("centre", "middle", "very centre"),
    "middle right": ("middle right", "right", "right edge"),
    "bottom left": ("bottom left", "lower left", "bottom left corner"),
    "bottom centre": ("bottom centre", "bottom", "lower middle"),
    "bottom right": ("bottom right", "lower right", "bottom right corner"),
    "white": ("white", "white", "snowy"),
    "grey": ("grey", "grey", "ashen"),
    "cream": ("cream", "cream", "ivory"),
    "mint": ("mint", "mint", "minty"),
    "sky": ("sky blue", "sky", "pale blue"),
    "lilac": ("lilac", "lilac", "lavender"),
}
OPENINGS = (
    "", "", "", "", "a picture of", "there is", "this drawing shows", "you can see", "we see",
    "an image with", "it shows", "look at", "here are", "someone drew",
)  # fmt: skip
PAPER_PHRASES = (
    "on a {} background", "on {} paper", "against {}", "all on {}", "and the background is {}",
)  # fmt: skip
PLACE_PHRASES = ("at the {}", "in the {}", "on the {}", "placed {}", "towards the {}")
LINKS = (", ", ", ", " and ", " with ", " along with ", " as well as ", "; then ")
# Asides say nothing about the image, as real captions do; their rare words fall into pieces.
MAKERS = (
    "anna", "omar", "yuki", "carlos", "ingrid", "femi", "priya", "lucas", "mei", "noah", "zoe",
    "ivan", "grandmother", "the teacher", "my neighbour", "a student", "the painter", "our guide",
)  # fmt: skip
ASIDES = (
    "drawn by {}", "made for {}", "from the sketchbook of {}", "photographed by {}",
    "found by {} on monday", "{} kept it in a drawer", "sent to {} last winter",
    "a favourite of {}", "as {} remembers", "for the exhibition of {}",
)  # fmt: skip


COUNT = 5
# How often a caption says each thing about an object; the shape is always said.
_TOLD = {"colour": 0.95, "place": 0.8, "size": 0.5, "fill": 0.6}


def captions(scene: Scene) -> list[str]:
    """Five different captions of a scene, always the same ones."""
    rng = Random(f"captions/{scene.style.name}/{scene.content()}")
    return take(COUNT, distinct(lambda: _caption(scene, rng), str))


def say(meaning: str, rng: Random, style: Style) -> str:
    """One of the words for a shape, colour, size, fill, place or paper."""
    return rng.choice(style.words.get(meaning) or WORDS[meaning])


def phrase(item: Item, rng: Random, style: Style) -> str:
    """An object in some words and some order, with things left out."""
    told = {name for name, share in _TOLD.items() if rng.random() < share}
    before = [
        say(getattr(item, name), rng, style) for name in ("size", "fill", "colour") if name in told
    ]
    rng.shuffle(before)
    after = ""
    if before and rng.random() < 0.25:
        after = f" that is {before.pop()}"
    thing = with_article(" ".join([*before, say(item.shape, rng, style)])) + after
    if "place" not in told:
        return thing
    place = rng.choice(PLACE_PHRASES).format(say(item.place, rng, style))
    return f"{place} {thing}" if rng.random() < 0.3 else f"{thing} {place}"


def with_article(words: str) -> str:
    """The words behind \"a\" or \"an\"."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _caption(scene: Scene, rng: Random) -> str:
    style = scene.style
    told = rng.sample(scene.items, min(len(scene.items), rng.choice((2, 3, 3, 3))))
    text = phrase(told[0], rng, style)
    for item in told[1:]:
        text += rng.choice(LINKS) + phrase(item, rng, style)
    if rng.random() < 0.4:
        paper = rng.choice(PAPER_PHRASES).format(say(scene.background, rng, style))
        text = f"{text} {paper}"
    opening = rng.choice(style.openings or OPENINGS)
    if rng.random() < 0.2:
        text += ", " + rng.choice(ASIDES).format(rng.choice(MAKERS))
    return f"{opening} {text}".strip()
