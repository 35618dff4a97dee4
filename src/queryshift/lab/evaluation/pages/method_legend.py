"""The colour of each method, the same on every page and in every figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Colour(NamedTuple):
    """A method's colour on a light page, which figures have too, and on a dark one."""

    light: str
    dark: str


COLOURS = {
    "frozen": Colour("#737b88", "#9aa3b2"),
    "tent": Colour("#c2661a", "#f0a05c"),
    "shot": Colour("#8a4fb5", "#c596ea"),
    "tcr": Colour("#2c6fc9", "#7db2f5"),
    "rest": Colour("#11805a", "#4fc79a"),
    "default": Colour("#b8357f", "#f58ac7"),
}
OTHERS = (
    Colour("#b3261e", "#ff8a80"),
    Colour("#0f7f8f", "#5cc7d6"),
    Colour("#96751a", "#d9b95a"),
    Colour("#c0448f", "#f08cc4"),
    Colour("#4d5560", "#c3cad6"),
)
"""For curves that are no method's, told apart in print."""
_WORDS = {"source model": "frozen"}


def colours_of(names: Sequence[str]) -> list[Colour]:
    """A colour for each curve: a method's own by its name in any case, else the next of others.

    The first of a method's variants has its colour where the method itself is not among them.

    >>> [colour.light for colour in colours_of(["REST", "closest", "source model", "tcr:lr=1"])]
    ['#11805a', '#b3261e', '#737b88', '#2c6fc9']
    """
    left = iter(OTHERS * (1 + len(names) // len(OTHERS)))
    keys = [_WORDS.get(name, name.lower()) for name in names]
    taken, found = set(keys), []
    for key in keys:
        base = key.split(":")[0].split("+")[0]
        own = key if key in COLOURS or base in taken else base
        taken.add(own)
        found.append(COLOURS[own] if own in COLOURS else next(left))
    return found


def legend(names: Sequence[str]) -> dict[str, Any]:
    """What templates need to show methods: colours by CSS class, and classes by name."""
    classes = [f"method-{number}" for number in range(len(names))]
    return {
        "colours": dict(zip(classes, colours_of(names), strict=True)),
        "css_classes": dict(zip(names, classes, strict=True)),
    }
