"""Text corruptions: characters, words and whole sentences; severities 1 to 5 are levels 3 to 7.

`FAMILIES` has all of them, computed in `character_level.py`, `word_level.py` and
`sentence_level.py`. Imports: `names` and `corruption` of `corruptions`. Start with
`word_level.py`.
"""

from __future__ import annotations

from ..corruption import Corruption
from .caption_words import LEVELS as LEVELS
from .character_level import (
    character_delete,
    character_insert,
    character_replace,
    character_swap,
    ocr,
)
from .chatty import chatty
from .published import as_published as as_published
from .published import at_level as at_level
from .published import similar as similar
from .sentence_level import active, backtranslation, casual, formal, passive
from .sentence_level import sentence as sentence
from .typing_errors import half_typos, typos
from .word_level import (
    insert_punctuation,
    synonym_replacement,
    word_deletion,
    word_insertion,
    word_swap,
)

FAMILIES: dict[str, tuple[Corruption, ...]] = {
    "character": (ocr, character_insert, character_replace, character_swap, character_delete),
    "word": (synonym_replacement, word_insertion, word_swap, word_deletion, insert_punctuation),
    "sentence": (formal, casual, passive, active, backtranslation),
}

OURS: tuple[Corruption, ...] = (typos, half_typos, chatty)
"""Not the paper's, and drawn by no diverse benchmark: found by name."""
