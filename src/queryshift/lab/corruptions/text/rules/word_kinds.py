"""What kind of word a word is, by the lexicon and by how WordNet's texts use it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ..wordnet import entries
from . import lexicon
from .lexicon import verb_form

_NO_PARTICIPLES = frozenset(("red", "bed", "shed", "sled", "seed", "weed", "feed", "speed"))


def begins_noun(word: str) -> bool:
    """Whether a noun must follow: after "a", "his", "of", "red", "and"."""
    return (
        word in lexicon.DETERMINERS | lexicon.POSSESSIVES | lexicon.PREPOSITIONS
        or word in lexicon.ADJECTIVES
        or word in {"and", "or", ","}
    )


def is_living(word: str) -> bool:
    """Whether a noun is a person or an animal."""
    return word in lexicon.PEOPLE | lexicon.ANIMALS | lexicon.COUNT_NOUNS


def determines(word: str) -> bool:
    """Whether it is an article, a number or a possessive."""
    return word in lexicon.DETERMINERS | lexicon.POSSESSIVES


def is_english(words: Sequence[str]) -> bool:
    """Whether at least half of the words are English, so that the rules may be tried."""
    little = lexicon.DETERMINERS | lexicon.PREPOSITIONS | lexicon.POSSESSIVES | lexicon.AUXILIARIES
    known = [word in little or bool(entries(word)) for word in words if word.isalpha()]
    return 2 * sum(known) >= len(known) > 0


def is_participle(word: str) -> bool:
    """Whether a word looks like "covered" or "thrown"."""
    if word in _NO_PARTICIPLES:
        return False
    return word.endswith("ed") or verb_form(word, "participle") is not None


def looks_like_noun(word: str) -> bool:
    """Whether texts use a word as a noun or adjective more often than as a verb."""
    noun, verb, adjective = _uses(word)
    return not entries(word) or max(noun, adjective) >= max(verb, 0)


def is_mostly_noun(word: str) -> bool:
    """Whether texts use a word as a noun more often than as a verb or adjective."""
    noun, verb, adjective = _uses(word)
    return noun >= max(verb, adjective)


@cache
def _uses(word: str) -> tuple[int, int, int]:
    """How often texts use a word as a noun, verb and adjective; -1 for never at all."""
    found = entries(word)
    noun, verb, adjective = (
        max((entry.uses for entry in found if entry.part == part), default=-1) for part in "nva"
    )
    return noun, verb, adjective
