"""Passive to active, where a caption names who does it: most captions are active already."""

from __future__ import annotations

from collections.abc import Sequence

from .. import inflection
from . import lexicon
from .phrases import head_of, is_noun_phrase, is_several, with_article
from .sentence import Sentence
from .verbs import find_verbs

# "seen by the lake" names a place, not someone who sees.
_PLACES = frozenset(
    ("water", "lake", "river", "ocean", "sea", "road", "side", "shore", "pool", "beach", "fence")
)


def to_active(caption: str) -> str:
    """Turn "A ball is thrown by a girl" into "A girl throws a ball"; leave what is unclear."""
    sentence = Sentence.of(caption)
    words = sentence.words
    if not sentence.is_simple() or words.count("by") != 1 or "," in words:
        return caption
    by = words.index("by")
    lemma = _done(words[by - 1]) if by > 1 else None
    agent = words[by + 1 :]
    if lemma is None or not is_noun_phrase(agent) or head_of(agent)[-1] in _PLACES:
        return caption
    helpers = [word for word in words[:by] if word in lexicon.BE or word in {"being", "been"}]
    target = sentence.uncapitalised[: by - 1 - len(helpers)]
    if list(words[len(target) : by - 1]) != helpers or not _is_done_to(target, helpers):
        return caption
    verb = _active_verb(lemma, helpers, is_several(agent))
    return sentence.spoken([*sentence.tokens[by + 1 :], *verb, *with_article(target)])


def _is_done_to(target: Sequence[str], helpers: list[str]) -> bool:
    """Whether it is surely the whole target, and not its last noun, that something is done to."""
    words = [word.lower() for word in target]
    if not is_noun_phrase(words):
        return False
    short = lexicon.PREPOSITIONS.isdisjoint(words) and find_verbs(words) == (None, None)
    return bool(helpers) or short


def _done(word: str) -> str | None:
    """The transitive verb that `word` is the participle of."""
    form = lexicon.verb_form(word, "participle")
    return form.lemma if form and form.lemma in lexicon.TRANSITIVE else None


def _active_verb(lemma: str, helpers: list[str], several: bool) -> list[str]:
    past = not {"was", "were"}.isdisjoint(helpers)
    be = ("were" if several else "was") if past else ("are" if several else "is")
    if helpers and helpers[-1] == "being":
        return [be, inflection.ing(lemma)] if len(helpers) > 1 else [inflection.ing(lemma)]
    if not helpers:
        return [inflection.ing(lemma)]
    if past:
        return [inflection.past(lemma)]
    return [lemma if several else inflection.third_person(lemma)]
