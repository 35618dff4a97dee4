"""Where the first clause of a caption has its verb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..inflection import is_plural
from . import lexicon
from .lexicon import Form, verb_form
from .phrases import is_several
from .word_kinds import begins_noun, is_mostly_noun, looks_like_noun


@dataclass(frozen=True)
class Verb:
    """Where the verb of a clause stands: tokens `start` to `stop`, with `be` and adverbs in it."""

    start: int
    stop: int
    form: Form
    adverbs: tuple[str, ...] = ()
    be: str | None = None


def find_verbs(words: Sequence[str]) -> tuple[Verb | None, Verb | None]:
    """The finite verb of the caption's first clause, and the first verb in -ing before it."""
    fragment = None
    for place in range(1, len(words)):
        if words[place] in lexicon.CLAUSE_WORDS or words[place] == ",":
            break
        if words[place] in lexicon.BE:
            return _progressive(words, place), fragment
        if words[place] in lexicon.AUXILIARIES:
            return Verb(place, place + 1, Form(words[place], "auxiliary")), fragment
        if finite := _finite(words, place):
            return _with_adverb(words, place, finite), fragment
        if fragment is None and (form := _participle_after_noun(words, place)):
            fragment = Verb(place, place + 1, form)
    return None, fragment


def _with_adverb(words: Sequence[str], place: int, form: Form) -> Verb:
    before = words[place - 1]
    if before.endswith("ly") and place > 1 and not looks_like_noun(before):
        return Verb(place - 1, place + 1, form, (before,))
    return Verb(place, place + 1, form)


def _progressive(words: Sequence[str], be: int) -> Verb:
    place = be + 1
    while place < len(words) and words[place].endswith("ly"):
        place += 1
    if place < len(words) and (form := verb_form(words[place], "ing")):
        return Verb(be, place + 1, form, tuple(words[be + 1 : place]), lexicon.BE[words[be]])
    return Verb(be, be + 1, Form("be", "auxiliary"), be=lexicon.BE[words[be]])


def _finite(words: Sequence[str], place: int) -> Form | None:
    before, word = words[place - 1], words[place]
    after = words[place + 1] if place + 1 < len(words) else ""
    dressed = before in lexicon.COLOURS and words[place - 2] in {"wearing", "in"}
    if begins_noun(before) and not dressed:
        return None
    several = is_several(words[:place]) or _is_collective(words[:place])
    form = verb_form(word, "base" if several else "s")
    if form and word in lexicon.NOUN_PLURALS | {"rock", "fish", "water"}:
        follows = after in lexicon.DETERMINERS | lexicon.PREPOSITIONS
        return form if follows and is_mostly_noun(before) else None
    if form and several and not is_plural(before) and before not in lexicon.COUNT_NOUNS:
        return form if looks_like_noun(before) else None
    return form or (verb_form(word, "past") if after in lexicon.DETERMINERS else None)


def _participle_after_noun(words: Sequence[str], place: int) -> Form | None:
    describes = " ".join(words[place + 1 : place + 2]) in lexicon.DESCRIBED_BY_VERB
    before = words[place - 1]
    if describes or begins_noun(before) or before in lexicon.COMPOUND_FIRSTS:
        return None
    return verb_form(words[place], "ing")


def _is_collective(phrase: Sequence[str]) -> bool:
    """Whether it is "a group of girls", which may do something together."""
    return any(one in lexicon.COLLECTIVES and two == "of" for one, two in pairwise(phrase))
