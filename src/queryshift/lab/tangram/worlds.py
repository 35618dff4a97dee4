"""Splits of the world: a hash of a scene's content decides its split, so none overlap."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from hashlib import blake2b
from itertools import islice
from random import Random
from typing import TypeVar

from queryshift.errors import BadInput, check_known

SEALED = ("sealed", "sealed-2", "sealed-3", "sealed-4", "sealed-5", "sealed-6")
SPLITS = ("train", "dev", "test", *SEALED)
Thing = TypeVar("Thing")
_QUARTERS = ("train", "train", "dev", "test")


def world_of(content: str) -> str:
    """The split that something with this content may appear in; "test" is the sealed ones too."""
    return _QUARTERS[blake2b(content.encode(), digest_size=1).digest()[0] % 4]


def belongs(content: str, split: str) -> bool:
    """Whether something with this content may appear in a split.

    The sealed worlds draw from the same quarter as the test world, each by a seed of its own, and
    each is asked once: the first for a default that was changed after it, the second for that, the
    third to fifth for earlier forms of the policy, the sixth for the policy of today. (Clean
    streams of the sixth were asked once more, to check that policy.)
    """
    return world_of(content) == ("test" if split in SEALED else split)


def generator(kind: str, split: str, seed: int) -> Random:
    """The random generator of one stream; a text seeds it, so all processes agree."""
    check_known("split", split, SPLITS)
    return Random(f"{kind}/{split}/{seed}")


def distinct(draw: Callable[[], Thing], key: Callable[[Thing], Hashable]) -> Iterator[Thing]:
    """Draws without end, each new."""
    seen = set()
    while True:
        thing = draw()
        if key(thing) not in seen:
            seen.add(key(thing))
            yield thing


def take(count: int, things: Iterator[Thing]) -> list[Thing]:
    """The first `count` of the things."""
    if count < 0 or count != int(count):
        raise BadInput(f"count is {count!r}; expected a whole number, 0 or more.")
    return list(islice(things, int(count)))
