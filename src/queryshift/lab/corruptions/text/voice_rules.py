"""Passive and active captions by rule, for one clause with one object: others stay as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from . import inflection
from .caption_words import ENGLISH, STOPWORDS, words_in
from .wordnet import entries

_TRANSITIVE, _WITH_PREPOSITION = words_in("transitive"), ENGLISH["verb_with_preposition"]
_SEVERAL, _POSSESSIVES = words_in("several"), words_in("possessives")
_DETERMINERS = _SEVERAL | _POSSESSIVES | words_in("determiners")
_PREPOSITIONS, _OBJECT_FORMS = words_in("prepositions"), ENGLISH["object_forms"]
_NEVER, _PLACES = words_in("never_in_phrase"), words_in("places")
_ASIDES, _BE = {"while", "as", "when"}, {"is", "are", "was", "were"}
_TOKEN = re.compile(r"[\w’']+(?:-[\w’']+)*|[^\w\s]")
_PLAIN = re.compile(r"[a-z]+(?:['-][a-z]+)*")


class _Form(NamedTuple):
    lemma: str
    kind: str  # "ing", "s", "base", "past" or "participle"


class _Caption(NamedTuple):
    """A caption in words, and its capital letter and end; `aside` begins with "while" or "as"."""

    words: tuple[str, ...]
    aside: tuple[str, ...]
    capital: bool
    end: str

    def says(self, words: Sequence[str]) -> str:
        """Other words with this caption's capital letter and end."""
        text = " ".join((*words, *self.aside))
        return (text[:1].upper() + text[1:] if self.capital else text) + self.end


def to_passive(caption: str) -> str:
    """Turn "A man riding a wave" into "A wave being ridden by a man"; leave what is unclear."""
    parsed = _parsed(caption)
    if parsed is None:
        return caption
    words = parsed.words
    for place in range(1, len(words) - 1):
        be = words[place - 1] if words[place - 1] in _BE else ""
        subject = words[: place - bool(be)]
        form = _verb(words[place], subject, be, words[place + 1])
        if form is None or not _is_noun_phrase(subject):
            continue
        start = place + 1
        particle = words[start : start + (_WITH_PREPOSITION.get(form.lemma) == words[start])]
        start += len(particle)
        end = start + _phrase_length(words[start:])
        target, rest = words[start:end], words[end:]
        takes_object = form.lemma in _TRANSITIVE or particle
        if not (takes_object and _is_object(target, subject) and _can_follow(rest)):
            continue
        verb = _passive_verb(form, be, _is_several(target))
        done = [*_without_owner(target), *verb, *particle]
        agent = ["by", _OBJECT_FORMS.get(subject[0], subject[0]), *subject[1:]]
        owned = not _POSSESSIVES.isdisjoint(rest)  # "by a dog in its mouth"
        return parsed.says([*done, *agent, *rest] if owned else [*done, *rest, *agent])
    return caption


def to_active(caption: str) -> str:
    """Turn "A ball is thrown by a girl" into "A girl throws a ball"; leave what is unclear."""
    parsed = _parsed(caption)
    if parsed is None or parsed.words.count("by") != 1:
        return caption
    words = parsed.words
    by = words.index("by")
    form = _form(words[by - 1], "participle") if by else None
    agent, before = words[by + 1 :], words[: by - 1]
    helpers = [word for word in before if word in _BE | {"being"}]
    target = before[: len(before) - len(helpers)]
    sure = form and helpers and list(before[len(target) :]) == helpers and _is_noun_phrase(target)
    head = agent[: _phrase_length(agent)]
    if form is None or not sure or not head or head[-1] in _PLACES or not _can_follow(words[by:]):
        return caption
    return parsed.says([*agent, *_active_verb(form.lemma, helpers, _is_several(agent)), *target])


def is_english(caption: str) -> bool:
    """Whether at least half of the words are English, so that the rules may be tried."""
    words = re.findall(r"[^\W\d_]+", caption.lower())
    known = [word in STOPWORDS or bool(entries(word)) for word in words]
    return 2 * sum(known) >= len(known) > 0


def _parsed(caption: str) -> _Caption | None:
    """The caption, if it is one run of English words without commas, quotes or brackets."""
    body = re.sub(r"\s*[.!]?\s*$", "", caption)
    tokens = _TOKEN.findall(body)
    if len(tokens) < 3 or not all(map(_PLAIN.fullmatch, tokens[1:])):
        return None  # names with a capital letter too
    words = (tokens[0].lower(), *tokens[1:])
    cut = next((place for place, word in enumerate(words) if word in _ASIDES), len(words))
    end = caption[len(body) :].strip()
    return _Caption(words[:cut], words[cut:], tokens[0][0].isupper(), end)


@cache
def _forms() -> dict[str, tuple[_Form, ...]]:
    """Every form of the known verbs."""
    table: dict[str, tuple[_Form, ...]] = {}
    for lemma in sorted(_TRANSITIVE.union(_WITH_PREPOSITION)):
        for kind, form in (
            ("ing", inflection.ing(lemma)),
            ("s", inflection.third_person(lemma)),
            ("base", lemma),
            ("past", inflection.past(lemma)),
            ("participle", inflection.participle(lemma)),
        ):
            table[form] = (*table.get(form, ()), _Form(lemma, kind))
    return table


def _form(word: str, kind: str) -> _Form | None:
    return next((form for form in _forms().get(word, ()) if form.kind == kind), None)


def _verb(word: str, subject: Sequence[str], be: str, after: str) -> _Form | None:
    """The verb form of a word, if it can follow this subject."""
    if not subject:
        return None
    if be or word.endswith("ing"):
        return _form(word, "ing")
    form = _form(word, "base" if _is_several(subject) else "s")
    return form or (_form(word, "past") if after in _DETERMINERS else None)


def _passive_verb(form: _Form, be: str, several: bool) -> list[str]:
    done = inflection.participle(form.lemma)
    if form.kind == "ing" and not be:
        return ["being", done]
    past = form.kind == "past" or be in {"was", "were"}
    now = ("were" if several else "was") if past else ("are" if several else "is")
    return [now, "being", done] if form.kind == "ing" else [now, done]


def _active_verb(lemma: str, helpers: Sequence[str], several: bool) -> list[str]:
    past = not {"was", "were"}.isdisjoint(helpers)
    be = ("were" if several else "was") if past else ("are" if several else "is")
    if helpers[-1] == "being":
        return [*([be] if len(helpers) > 1 else []), inflection.ing(lemma)]
    if past:
        return [inflection.past(lemma)]
    return [lemma if several else inflection.third_person(lemma)]


def _is_noun_phrase(words: Sequence[str]) -> bool:
    """Whether the words can be a subject or an object: "a boy with long hair"."""
    if not words or words[0] in _PREPOSITIONS | {"and", "there"} or not _NEVER.isdisjoint(words):
        return False
    if len(words) == 1 and words[0] in _OBJECT_FORMS:
        return True
    if any(word in _OBJECT_FORMS or word in _BE for word in words):
        return False
    return _ends_phrase(words) and all(map(_is_part, ("", *words), words))


def _is_object(target: Sequence[str], subject: Sequence[str]) -> bool:
    """Whether something is done to the target; not in "a man in a library reading room"."""
    bare = target and target[0] not in _DETERMINERS and not _is_several(target)
    return _is_noun_phrase(target) and not (bare and not _PREPOSITIONS.isdisjoint(subject))


def _is_part(before: str, word: str) -> bool:
    """Whether a word can follow `before` inside a noun phrase."""
    if word in _DETERMINERS:
        return not before or before in _PREPOSITIONS | {"and", "all", "both"}
    return word in _PREPOSITIONS | {"and"} or _is_noun_like(word)


def _ends_phrase(words: Sequence[str]) -> bool:
    last = words[-1]
    return last not in _DETERMINERS | _PREPOSITIONS | {"and"} and _is_noun_like(last)


def _phrase_length(words: Sequence[str]) -> int:
    """How many words the first noun phrase has, "of" and "and" included, other phrases not."""
    for place, word in enumerate(words):
        joins = word in {"of", "and"} and place and place + 1 < len(words)
        before = words[place - 1] if place else ""
        if word in _PREPOSITIONS - {"of"} or not (joins or _is_part(before, word)):
            return place
    return len(words)


def _can_follow(rest: Sequence[str]) -> bool:
    """Whether the rest of the caption is made of phrases such as "on the beach"."""
    return not rest or (rest[0] in _PREPOSITIONS | {"by"} and _is_noun_phrase(rest[1:]))


def _is_several(phrase: Sequence[str]) -> bool:
    """Whether a noun phrase is a plural."""
    head = phrase[: max(_phrase_length(phrase), 1)]
    head = head[: head.index("of")] if "of" in head[1:] else head
    single = head[0] in {"a", "an", "one", "another", "this", "each"}
    if "and" in head[:-1]:  # but "a black and white dog" is one
        return not single or head[head.index("and") + 1] in _DETERMINERS
    return not single and (head[0] in _SEVERAL or inflection.is_plural(head[-1]))


def _without_owner(target: Sequence[str]) -> list[str]:
    """The object as a subject: "his bike" to "a bike", since he has not been named yet."""
    if target[0] not in _POSSESSIVES:
        return list(target)
    article = [] if _is_several(target) else [inflection.article(target[1])]
    return [*article, *target[1:]]


@cache
def _is_noun_like(word: str) -> bool:
    """Whether texts use a word mostly as a noun or an adjective; unknown words count as nouns."""
    found = entries(word)
    if word.endswith("ed"):
        return True  # "a spotted dog"
    return not found or max(found, key=lambda entry: (entry.uses, entry.part in "na")).part in "na"
