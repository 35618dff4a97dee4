"""Captions of scenes, with several words for each shape, colour, size, fill and place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from .scenes import Item, Scene
from .styles import VOCABULARY, Style
from .worlds import distinct, take

WORDS: Mapping[str, Sequence[str]] = VOCABULARY["meanings"]
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
    place = rng.choice(VOCABULARY["places"]).format(say(item.place, rng, style))
    return f"{place} {thing}" if rng.random() < 0.3 else f"{thing} {place}"


def with_article(words: str) -> str:
    """The words behind \"a\" or \"an\"."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _caption(scene: Scene, rng: Random) -> str:
    style = scene.style
    told = rng.sample(scene.items, min(len(scene.items), rng.choice((2, 3, 3, 3))))
    text = phrase(told[0], rng, style)
    for item in told[1:]:
        text += rng.choice(VOCABULARY["links"]) + phrase(item, rng, style)
    if rng.random() < 0.4:
        paper = rng.choice(VOCABULARY["papers"]).format(say(scene.background, rng, style))
        text = f"{text} {paper}"
    opening = rng.choice(style.openings or VOCABULARY["openings"])
    if rng.random() < 0.2:
        text += ", " + rng.choice(VOCABULARY["asides"]).format(rng.choice(VOCABULARY["makers"]))
    return f"{opening} {text}".strip()
