"""Edits: a reference scene, a sentence that changes it, and the scene that comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from .draw_shapes import Pixels
from .scene_captions import say, with_article
from .scenes import BACKGROUNDS, PLACES, VALUES, Item, Scene, draw_scene
from .styles import PLAIN, VOCABULARY
from .worlds import belongs, generator, take

SENTENCES: Mapping[str, Sequence[str]] = VOCABULARY["edits"]
KINDS = tuple(SENTENCES)
MOST_ITEMS, FEWEST_ITEMS = 4, 2


@dataclass(frozen=True, slots=True)
class Edit:
    """A composed query: `reference` as `text` changes it is `target`."""

    reference: Scene
    text: str
    target: Scene

    def query(self) -> tuple[Pixels, str]:
        """The query: an image and a sentence."""
        return self.reference.image(), self.text


def edits(split: str, count: int, seed: int = 0) -> list[Edit]:
    """The first `count` edits of one world.

    They come in pairs: two edits of one reference that set the same thing to different values,
    so each target stands beside a distractor that differs from it in one attribute.
    """
    rng = generator("edits", split, seed)
    return take(count, _stream(rng, split))


def candidates(queries: list[Edit]) -> list[Scene]:
    """The gallery of some edits: every target, then every reference, each once."""
    shown = [edit.target for edit in queries] + [edit.reference for edit in queries]
    return list({scene.content(): scene for scene in shown}.values())


def _stream(rng: Random, split: str) -> Iterator[Edit]:
    seen: set[str] = set()
    while True:
        pair = _pair(rng, split)
        contents = {scene.content() for scene in candidates(pair)}
        if len(pair) == 2 and not contents & seen:
            seen |= contents
            yield from pair


def _pair(rng: Random, split: str) -> list[Edit]:
    """Two edits of the same kind, of the same object where one is changed; fewer if none fit."""
    reference, kind = draw_scene(rng, split), rng.choice(KINDS)
    item = rng.choice(reference.items)
    found: dict[str, Edit] = {}
    for _ in range(12):
        edit = _edit(rng, reference, item, kind)
        if edit and belongs(edit.target.content(), split):
            found[edit.target.content()] = edit
    return list(found.values())[:2]


def _edit(rng: Random, reference: Scene, item: Item, kind: str) -> Edit | None:
    """One change of the scene with its sentence; None if the change is impossible."""
    items, background = reference.items, reference.background
    value = ""
    free = [place for place in PLACES if all(other.place != place for other in items)]
    if kind == "paper":
        background = rng.choice(BACKGROUNDS)
        value = say(background, rng, PLAIN)
    elif kind == "remove":
        item = rng.choice(items)
        items = tuple(other for other in items if other is not item)
    elif kind == "add":
        new = replace(item, place=free[0], colour=rng.choice(VALUES["colour"]))
        items, value = (*items, new), _full(new, rng)
    else:
        choice = rng.choice(free if kind == "place" else VALUES[kind])
        changed = item.altered(kind, choice)
        items = tuple(changed if other is item else other for other in items)
        value = say(choice, rng, PLAIN)
        value = with_article(value) if kind == "shape" else value
    target = Scene(items, background, reference.style)
    if target == reference or not FEWEST_ITEMS <= len(items) <= MOST_ITEMS:
        return None
    sentence = rng.choice(SENTENCES[kind])
    return Edit(reference, sentence.format(thing=_name(item, reference, rng), value=value), target)


def _name(item: Item, scene: Scene, rng: Random) -> str:
    """Enough words to tell an object from the others of its scene."""
    alike = [
        other
        for other in scene.items
        if (other.colour, other.shape) == (item.colour, item.shape) and other is not item
    ]
    name = f"{say(item.colour, rng, PLAIN)} {say(item.shape, rng, PLAIN)}"
    if alike or rng.random() < 0.3:
        name += f" at the {say(item.place, rng, PLAIN)}"
    return name


def _full(item: Item, rng: Random) -> str:
    """Everything about an object."""
    size, fill, colour, shape, place = (
        say(getattr(item, name), rng, PLAIN)
        for name in ("size", "fill", "colour", "shape", "place")
    )
    return f"{with_article(f'{size} {fill} {colour} {shape}')} at the {place}"
