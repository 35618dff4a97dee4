"""The words that scenes are told in: several for each shape, colour, size, fill and place."""

from __future__ import annotations

from collections.abc import Mapping

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
# Asides say nothing about the picture, as real captions do; their rare words fall into pieces.
MAKERS = (
    "anna", "omar", "yuki", "carlos", "ingrid", "femi", "priya", "lucas", "mei", "noah", "zoe",
    "ivan", "grandmother", "the teacher", "my neighbour", "a student", "the painter", "our guide",
)  # fmt: skip
ASIDES = (
    "drawn by {}", "made for {}", "from the sketchbook of {}", "photographed by {}",
    "found by {} on monday", "{} kept it in a drawer", "sent to {} last winter",
    "a favourite of {}", "as {} remembers", "for the exhibition of {}",
)  # fmt: skip
