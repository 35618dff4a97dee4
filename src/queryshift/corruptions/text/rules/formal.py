"""Casual to formal: whole sentences, written-out forms, and the longer word for things."""

from __future__ import annotations

import re
from collections.abc import Sequence

from queryshift.corruptions.text.rules import lexicon
from queryshift.corruptions.text.rules.phrases import (
    Sentence,
    begins_noun,
    find_verbs,
    is_living,
    is_noun_phrase,
    is_several,
    looks_like_noun,
    phrase_length,
    relative_pronoun,
    with_article,
)
from queryshift.corruptions.text.rules.style_words import FORMAL, expanded, restyled


def to_formal(caption: str) -> str:
    """Write a caption as a whole sentence with a full stop, in a formal manner."""
    text = expanded(restyled(caption, FORMAL))
    sentence = Sentence.of(text)
    if sentence.is_simple():
        words = _completed(with_article(sentence.uncapitalised))
        text = " ".join(_dressed(words))
    text = re.sub(r"\s+([,.;:!?])", r"\1", text).strip()
    text = text if text.endswith((".", "!", "?", '"')) else f"{text}."
    return text[:1].upper() + text[1:]


def _dressed(tokens: Sequence[str]) -> list[str]:
    """Say how clothes are worn: "a man in a red shirt" to "a man dressed in a red shirt"."""
    words = [token.lower() for token in tokens]
    found: list[str] = []
    for place, token in enumerate(tokens):
        if words[place] == "in" and place and is_living(words[place - 1]):
            worn = phrase_length(words[place + 1 :])
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
    if not is_noun_phrase(subject) or words[0] in {"there", "this"}:
        return list(tokens)
    be = "are" if is_several(subject) else "is"
    if finite and participle:
        return [*tokens[:start], relative_pronoun(subject), be, *tokens[start:]]
    first_clause = _until_clause(words) if participle else words
    if finite or any(map(_may_be_finite, ("", *first_clause), first_clause)):
        return list(tokens)
    if participle:
        return [*tokens[:start], be, *tokens[start:]]
    nearest = "is" if words[0] in {"a", "an"} else be
    return list(tokens) if words[0] == "the" else ["there", nearest, *tokens]


def _until_clause(words: list[str]) -> list[str]:
    marks = (place for place, word in enumerate(words) if word in lexicon.CLAUSE_WORDS)
    return words[: next(marks, len(words))]


def _may_be_finite(before: str, word: str) -> bool:
    """Whether a word could be the verb of a sentence after all."""
    if word in lexicon.AUXILIARIES | lexicon.CLAUSE_WORDS:
        return True
    if lexicon.verb_form(word, "s") and word not in lexicon.NOUN_PLURALS:
        return True
    verb_like = not looks_like_noun(word) and not word.endswith(("ing", "ed", "ly"))
    known = word in lexicon.DETERMINERS | lexicon.PREPOSITIONS | lexicon.POSSESSIVES | {"and", ","}
    return bool(before) and verb_like and not known and not begins_noun(before)
