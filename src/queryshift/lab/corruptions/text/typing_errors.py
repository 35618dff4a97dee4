"""Typing errors: letters dropped, replaced or doubled, in any script."""

from __future__ import annotations

import string

from numpy.random import Generator

from ..corruption import at
from .caption_words import check_caption, pick

RATES = (0.05, 0.10, 0.15, 0.20, 0.25)  # of the letters
ALPHABETS = (  # by the end of their part of Unicode
    (0x250, string.ascii_lowercase),
    (0x370, ""),
    (0x400, "αβγδεζηθικλμνξοπρστυφχψω"),
    (0x530, "абвгдежзийклмнопрстуфхцчшщъыьэюя"),
)


def typos(caption: str, severity: int, rng: Generator) -> str:
    """Letters dropped, replaced, doubled, or with a random one of their script before them."""
    share, own = at(severity, RATES), _letters(check_caption(caption))
    typed = "".join(
        _mistyped(letter, own, rng) if letter.isalpha() and rng.random() < share else letter
        for letter in caption
    )
    return typed if typed.strip() else caption


def half_typos(caption: str, severity: int, rng: Generator) -> str:
    """Half of the queries with typing errors, the others as they are."""
    return typos(caption, severity, rng) if rng.random() < 0.5 else check_caption(caption)


def _mistyped(letter: str, own: str, rng: Generator) -> str:
    other = pick(rng, _alphabet(letter) or own)
    return pick(rng, ("", other, letter + letter, other + letter))


def _alphabet(letter: str) -> str:
    """The letters of a letter's script; nothing where the script is none of ours."""
    return next((letters for end, letters in ALPHABETS if ord(letter) < end), "")


def _letters(caption: str) -> str:
    return "".join(sorted({letter for letter in caption if letter.isalpha()}))
