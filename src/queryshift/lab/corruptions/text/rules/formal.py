"""Casual to formal: whole sentences, written-out forms, and the longer word for things."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import takewhile

from . import lexicon
from .phrases import is_several, is_subject, phrase_length, relative_pronoun, with_article
from .sentence import Sentence
from .style_words import FORMAL, SEATED, expanded, restyled
from .verbs import find_verbs
from .word_kinds import begins_noun, is_living, is_participle, looks_like_noun


def to_formal(caption: str) -> str:
    """Write a caption as a whole sentence with a full stop, in a formal manner."""
    text = expanded(restyled(caption, FORMAL))
    if any(map(is_living, Sentence.of(text).words)):
        text = restyled(text, SEATED)
    sentence = Sentence.of(text)
    if sentence.is_simple():
        words = _completed(with_article(sentence.uncapitalised))
        text = " ".join(_dressed(words)) + sentence.end
    text = re.sub(r"\s+([,.;:!?])", r"\1", text).strip(" ,;:")
    text = text if text.endswith((".", "!", "?", '"')) else f"{text}."
    return text[:1].upper() + text[1:]


def _dressed(tokens: Sequence[str]) -> list[str]:
    """Say how clothes are worn: "a man in a red shirt" to "a man dressed in a red shirt"."""
    words = [token.lower() for token in tokens]
    found: list[str] = []
    for place, token in enumerate(tokens):
        if words[place] == "in" and place and is_living(words[place - 1]):
            worn = phrase_length(_until({"and"}, words[place + 1 :]))
            if worn and words[place + worn] in lexicon.ACCESSORIES:
                token = "wearing"
            elif worn and words[place + worn] in lexicon.CLOTHES | lexicon.COLOURS:
                token = "dressed in"
        found.append(token)
    return found


def _completed(tokens: Sequence[str]) -> list[str]:
    """A whole sentence out of a headline: "a man riding a wave" to "a man is riding a wave"."""
    words = [token.lower() for token in tokens]
    finite, participle = find_verbs(words)
    start = participle.start if participle else len(words)
    subject = words[:start]
    if not is_subject(subject) or words[0] in {"there", "this"}:
        return list(tokens)
    be = "are" if is_several(subject) else "is"
    if finite and participle:
        return [*tokens[:start], relative_pronoun(subject), be, *tokens[start:]]
    first_clause = _until(lexicon.CLAUSE_WORDS, words) if participle else words
    if finite or any(map(_may_be_finite, ("", *first_clause), first_clause)):
        return list(tokens)
    if participle:
        return [*tokens[:start], be, *tokens[start:]]
    if words[0] == "the" or (be == "is" and words[0] not in lexicon.DETERMINERS):
        return list(tokens)
    return ["there", "is" if words[0] in {"a", "an"} else be, *tokens]


def _until(marks: Collection[str], words: list[str]) -> list[str]:
    """The words before the first mark."""
    return list(takewhile(lambda word: word not in marks, words))


def _may_be_finite(before: str, word: str) -> bool:
    """Whether a word could be the verb of a sentence after all."""
    if word in lexicon.AUXILIARIES | lexicon.CLAUSE_WORDS:
        return True
    if lexicon.verb_form(word, "s") and word not in lexicon.NOUN_PLURALS:
        return True
    past = lexicon.verb_form(word, "past")
    if past and past.lemma in lexicon.INTRANSITIVE - {"dress"} and not begins_noun(before):
        return True
    verb_like = not looks_like_noun(word) and not word.endswith(("ing", "ed", "ly"))
    known = word in lexicon.DETERMINERS | lexicon.PREPOSITIONS | lexicon.POSSESSIVES | {"and", ","}
    described = begins_noun(before) or is_participle(before)
    return bool(before) and verb_like and not known and not described
