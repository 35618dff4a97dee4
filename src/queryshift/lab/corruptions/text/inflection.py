"""English word forms: regular endings by rule, irregular verbs and plurals from tables."""

from __future__ import annotations

import re

from .caption_words import ENGLISH

_IRREGULAR_PLURALS: dict[str, str] = dict(
    pair.split() for pair in ENGLISH["irregular_plurals"].split(",")
)
_IRREGULAR_VERBS = {
    lemma: (past, participle)
    for lemma, past, participle in map(str.split, ENGLISH["irregular_verbs"].split(","))
}
_DOUBLING = re.compile(r"[^aeiou]*(?:qu)?[aeiou][bdfgklmnprstvz]")
_DOUBLING_LONG = frozenset(("admit", "begin", "commit", "control", "forget", "prefer", "refer"))


def ing(verb: str) -> str:
    """ride: riding, hug: hugging, lie: lying."""
    if verb.endswith("ie"):
        return f"{verb[:-2]}ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and verb != "be":
        return f"{verb[:-1]}ing"
    return f"{_doubled(verb)}ing"


def past(verb: str) -> str:
    """ride: rode, hug: hugged, carry: carried."""
    return _IRREGULAR_VERBS[verb][0] if verb in _IRREGULAR_VERBS else _regular_past(verb)


def participle(verb: str) -> str:
    """ride: ridden, hug: hugged, carry: carried."""
    return _IRREGULAR_VERBS[verb][1] if verb in _IRREGULAR_VERBS else _regular_past(verb)


def third_person(verb: str) -> str:
    """ride: rides, catch: catches, carry: carries."""
    return {"be": "is", "have": "has"}.get(verb) or _with_s(verb, after_o="es")


def plural(noun: str) -> str:
    """dog: dogs, child: children, snowman: snowmen."""
    if noun in _IRREGULAR_PLURALS:
        return _IRREGULAR_PLURALS[noun]
    if noun.endswith("man") and not noun.endswith(("human", "german")):
        return f"{noun[:-2]}en"
    return _with_s(noun, after_o="s")


def is_plural(noun: str) -> bool:
    """Whether a noun looks like a plural: "dogs", "men", not "dress" or "bus"."""
    if noun in _IRREGULAR_PLURALS.values() or noun.endswith("men"):
        return True
    return noun.endswith("s") and not noun.endswith(("ss", "us", "is"))


def article(word: str) -> str:
    """ "an" before a vowel that is spoken, else "a": an hour, a unicycle."""
    if re.match(r"(?:hour|honest|heir)", word):
        return "an"
    return "an" if re.match(r"(?!uni|eu|one|use)[aeiou]", word) else "a"


def inflect_like(word: str, model: str, lemma: str, part: str) -> str:
    """`word` in the form that `model` has of its `lemma`; a phrase at its head."""
    first, _, rest = word.partition(" ")
    if part == "v":
        for form in (ing, third_person, participle, past):
            if model == form(lemma) and model != lemma:
                return f"{form(first)} {rest}".strip()
    if part == "n" and model != lemma and model == plural(lemma):
        start, space, last = word.rpartition(" ")
        return f"{start}{space}{plural(last)}"
    return word


def _regular_past(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    if re.search("[^aeiou]y$", verb):
        return f"{verb[:-1]}ied"
    return f"{_doubled(verb)}ed"


def _doubled(verb: str) -> str:
    doubles = verb in _DOUBLING_LONG or _DOUBLING.fullmatch(verb)
    return verb + verb[-1] if doubles else verb


def _with_s(word: str, after_o: str) -> str:
    if re.search("[^aeiou]y$", word):
        return f"{word[:-1]}ies"
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    return word + (after_o if re.search("[^aeiou]o$", word) else "s")
