"""Noun phrases: where they end, their head and their number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .. import inflection
from ..inflection import is_plural
from . import lexicon
from .lexicon import verb_form
from .word_kinds import begins_noun, determines, is_living, is_participle, looks_like_noun


def is_several(phrase: Sequence[str]) -> bool:
    """Whether a noun phrase is a plural."""
    head = head_of(phrase)
    if "and" in head[1:] and head[head.index("and") - 1] not in lexicon.ADJECTIVES:
        return True
    if head[0] in lexicon.PLURAL_DETERMINERS:
        return True
    if head[0] in {"a", "an", "one", "another", "this", "each", "every"}:
        return False
    return is_plural(head[-1])


def with_article(tokens: Sequence[str]) -> list[str]:
    """A noun phrase with the article that a headline leaves out: "young boy" to "a young boy"."""
    words = [token.lower() for token in tokens]
    head = head_of(words)
    verbal = verb_form(words[0], "ing")
    bare = not (determines(words[0]) or words[0] in lexicon.PRONOUNS or verbal)
    plain = lexicon.AUXILIARIES.isdisjoint(head) and "and" not in head and "'" not in "".join(head)
    if bare and plain and head[-1] in lexicon.COUNT_NOUNS:
        return [inflection.article(words[0]), *tokens]
    return list(tokens)


def head_of(phrase: Sequence[str]) -> list[str]:
    """A noun phrase up to its noun, without what says more about it."""
    head: list[str] = []
    for word in phrase:
        if head and (word in lexicon.PREPOSITIONS or verb_form(word, "ing")):
            break
        if head and is_participle(word) and not begins_noun(head[-1]):
            break
        head.append(word)
    return head


def is_noun_phrase(words: Sequence[str]) -> bool:
    """Whether the words can be the subject or object of a sentence as they stand."""
    if not words or words[0] in lexicon.PREPOSITIONS | lexicon.CLAUSE_WORDS | {"and", "there"}:
        return False
    if verb_form(words[0], "ing"):
        return False
    if any(word in lexicon.CLAUSE_WORDS | lexicon.AUXILIARIES | {","} for word in words):
        return False
    if any(word in lexicon.PRONOUNS for word in words[1:]) or words[-1] in lexicon.ADVERBS:
        return False
    if any(determines(two) and _ends_noun(one) for one, two in pairwise(words)):
        return False
    return not begins_noun(words[-1]) or words[-1] in lexicon.PLURAL_DETERMINERS | {"white"}


def is_subject(words: Sequence[str]) -> bool:
    """Whether they are someone who does something, and not "a closeup of a man"."""
    return is_noun_phrase(words) and lexicon.PICTURES.isdisjoint(words)


def _ends_noun(word: str) -> bool:
    """Whether a phrase is over with this word, so that "a" or "his" cannot follow it."""
    return not (begins_noun(word) or verb_form(word, "ing") or is_participle(word))


def object_length(words: Sequence[str]) -> int:
    """How many of the words belong to the noun phrase that they begin with."""
    length = phrase_length(words)
    if length < len(words) and words[length] == "in" and length and is_living(words[length - 1]):
        wear = phrase_length(words[length + 1 :])
        if wear and words[length + wear] in lexicon.CLOTHES:
            return length + 1 + wear
    return length


def phrase_length(words: Sequence[str]) -> int:
    """How many of the words make the first noun phrase, without "in a red shirt" after it."""
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        if word == "of" and place:
            continue
        if word == "and" and place and _goes_on(words[place + 1 :]):
            continue
        if _ends_phrase(word, before):
            return place
    return len(words)


def _goes_on(words: Sequence[str]) -> bool:
    """Whether "and" adds another noun or adjective, and not another verb."""
    if not words:
        return False
    return words[0] in lexicon.DETERMINERS | lexicon.ADJECTIVES or looks_like_noun(words[0])


def _ends_phrase(word: str, before: str) -> bool:
    if word in lexicon.PREPOSITIONS | lexicon.CLAUSE_WORDS | lexicon.AUXILIARIES | {",", "and"}:
        return True
    if word in lexicon.ADVERBS or (word.endswith("ly") and not looks_like_noun(word)):
        return True
    if before and before not in {"of", "and", "all", "both"} and determines(word):
        return True
    if verb_form(word, "ing"):
        return not begins_noun(before)
    return False


def relative_pronoun(phrase: Sequence[str]) -> str:
    """ "who" for people, "that" for everything else."""
    people = any(
        word.lower() in lexicon.PEOPLE or word.endswith(("er", "ers", "ist", "ists"))
        for word in phrase
    )
    return "who" if people else "that"
