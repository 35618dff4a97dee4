"""Text corruptions: characters, words and whole sentences; severities 1 to 5 are levels 3 to 7.

`FAMILIES` has all of them; `characters.py`, `words.py` and `sentences.py` compute them. Imports:
`names`, `corruption` and `seeding` of the room. Start with `words.py`.
"""

from __future__ import annotations

from ..corruption import Corruption
from .characters import character_delete, character_insert, character_replace, character_swap, ocr
from .levels import LEVELS as LEVELS
from .levels import at_level as at_level
from .published import as_published as as_published
from .requests import chatty, half_typos, typos
from .sentences import active, backtranslation, casual, formal, passive
from .sentences import sentence as sentence
from .similarity import similar as similar
from .words import insert_punctuation, synonym_replacement, word_deletion, word_insertion, word_swap

FAMILIES: dict[str, tuple[Corruption, ...]] = {
    "character": (ocr, character_insert, character_replace, character_swap, character_delete),
    "word": (
        synonym_replacement,
        word_insertion,
        word_swap,
        word_deletion,
        insert_punctuation,
    ),
    "sentence": (formal, casual, passive, active, backtranslation),
}

OTHERS: tuple[Corruption, ...] = (typos, half_typos, chatty)
"""Not the paper's, and drawn by no diverse benchmark: found by name."""
