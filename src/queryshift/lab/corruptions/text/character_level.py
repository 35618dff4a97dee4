"""Character-level corruptions, with the rules and rates of nlpaug's character augmenters."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable

from numpy.random import Generator

from .caption_words import check_caption, pick, rate, sample

Edit = Callable[[list[str], Generator], list[str]]

_TOKEN = re.compile(r"\w+|[^\w\s]")
_CHARACTERS_PER_WORD = 0.3
_MOST = 10
_NOISE = string.ascii_letters + string.digits + "!@#$%^&*()_+"
_LOOK_ALIKES = "08 09 0o 0O 0D 14 17 1l 1I 2z 2Z 58 6b 8s 8S 8@ 8& 9g 9q ou rk CG OD OU EB"


def _confusions() -> dict[str, str]:
    table: dict[str, str] = {}
    for pair in _LOOK_ALIKES.split():
        one, other = tuple(pair)
        table[one] = table.get(one, "") + other
        table[other] = table.get(other, "") + one
    return table


_CONFUSIONS = _confusions()


def ocr(caption: str, severity: int, rng: Generator) -> str:
    """Letters misread for what looks alike; words without such letters stay clean."""
    return _edit_words(caption, rate(severity), rng, _misread, shortest=1)


def character_insert(caption: str, severity: int, rng: Generator) -> str:
    """Letters, digits or signs slipped into words of at least four characters."""
    return _edit_words(caption, rate(severity), rng, _insert)


def character_replace(caption: str, severity: int, rng: Generator) -> str:
    """Characters of words of at least four characters replaced by random ones."""
    return _edit_words(caption, rate(severity), rng, _replace)


def character_swap(caption: str, severity: int, rng: Generator) -> str:
    """Neighbouring characters exchanged; capital letters stay where they stood."""
    return _edit_words(caption, rate(severity), rng, _swap)


def character_delete(caption: str, severity: int, rng: Generator) -> str:
    """Characters left out of words of at least four characters."""
    return _edit_words(caption, rate(severity), rng, _delete)


def _edit_words(caption: str, share: float, rng: Generator, edit: Edit, shortest: int = 4) -> str:
    tokens = list(_TOKEN.finditer(check_caption(caption)))
    eligible = [token for token in tokens if len(token[0]) >= shortest]
    chosen = sample(rng, eligible, _bounded(share * len(tokens), least=1))
    edited = {token.start(): "".join(edit(list(token[0]), rng)) for token in chosen}
    return _TOKEN.sub(lambda token: edited.get(token.start(), token[0]), caption)


def _bounded(count: float, least: int) -> int:
    return min(max(math.ceil(count), least), _MOST)


def _places(characters: list[str], rng: Generator) -> list[int]:
    count = _bounded(_CHARACTERS_PER_WORD * len(characters), least=1)
    return sample(rng, range(len(characters)), count)


def _misread(characters: list[str], rng: Generator) -> list[str]:
    readable = [place for place, letter in enumerate(characters) if letter in _CONFUSIONS]
    count = _bounded(_CHARACTERS_PER_WORD * len(characters), least=2)
    for place in sample(rng, readable, count):
        characters[place] = pick(rng, _CONFUSIONS[characters[place]])
    return characters


def _insert(characters: list[str], rng: Generator) -> list[str]:
    for place in sorted(_places(characters, rng), reverse=True):
        characters.insert(place, pick(rng, _NOISE))
    return characters


def _replace(characters: list[str], rng: Generator) -> list[str]:
    for place in _places(characters, rng):
        characters[place] = pick(rng, _NOISE)
    return characters


def _swap(characters: list[str], rng: Generator) -> list[str]:
    capital = [letter.isupper() for letter in characters]
    last = len(characters) - 1
    for place in _places(characters, rng):
        side = 1 if place == 0 else -1 if place == last else pick(rng, (-1, 1))
        other = place + side
        characters[place], characters[other] = characters[other], characters[place]
    return [
        letter.upper() if upper else letter.lower()
        for letter, upper in zip(characters, capital, strict=True)
    ]


def _delete(characters: list[str], rng: Generator) -> list[str]:
    gone = set(_places(characters, rng))
    return [letter for place, letter in enumerate(characters) if place not in gone]
