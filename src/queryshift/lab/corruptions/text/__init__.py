"""Text corruptions: characters, words and whole sentences; severities 1 to 5 are levels 3 to 7."""

from __future__ import annotations

from ..corruption import Corruption
from .characters import character_delete, character_insert, character_replace, character_swap, ocr
from .levels import LEVELS, at_level
from .published import as_published
from .sentences import (
    BACKENDS,
    Changes,
    active,
    backtranslation,
    casual,
    changes,
    formal,
    passive,
    sentence,
)
from .similarity import similar
from .words import insert_punctuation, synonym_replacement, word_deletion, word_insertion, word_swap

__all__ = [
    "BACKENDS",
    "FAMILIES",
    "LEVELS",
    "Changes",
    "active",
    "as_published",
    "at_level",
    "backtranslation",
    "casual",
    "changes",
    "character_delete",
    "character_insert",
    "character_replace",
    "character_swap",
    "formal",
    "insert_punctuation",
    "ocr",
    "passive",
    "sentence",
    "similar",
    "synonym_replacement",
    "word_deletion",
    "word_insertion",
    "word_swap",
]

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
