"""Synonyms from the bundled single-word table of WordNet 3.0, with the morphology to find them."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from .caption_words import DATA, STOPWORDS
from .inflection import inflect_like

_ENDINGS = {
    "n": ("s:", "ses:s", "xes:x", "zes:z", "ches:ch", "shes:sh", "men:man", "ies:y"),
    "v": ("s:", "ies:y", "es:e", "es:", "ed:e", "ed:", "ing:e", "ing:"),
    "a": ("er:", "est:", "er:e", "est:e"),
    "r": (),
}
_PLAIN = re.compile(r"(?!x{0,3}(?:ix|iv|v?i{0,3})$)[a-z]+(?:[ '-][a-z]+)*")  # "two" is no "ii"
# "building" is a thing although "build" is commoner; "standing" is what people do.
_OWN_ENTRY_WEIGHT = 4


class Entry(NamedTuple):
    """One lemma as one part of speech: how often texts use it so, its synonyms sense by sense."""

    lemma: str
    part: str
    uses: int
    senses: tuple[tuple[str, ...], ...]


def entries(word: str) -> list[Entry]:
    """Every entry that `word` may be a form of: "riding" finds the noun "riding" and "ride"."""
    return [
        _table()[lemma, part] for part in _ENDINGS for lemma in dict.fromkeys(_lemmas(word, part))
    ]


@cache
def every_synonym(word: str) -> tuple[str, ...]:
    """All lemmas of all senses and parts of speech in plain lower case, as EDA takes them."""
    found = (
        re.sub(r"[^a-z ]", "", synonym.lower().replace("-", " "))
        for entry in entries(word)
        for synonym in (entry.lemma, *(member for sense in entry.senses for member in sense))
    )
    return tuple(synonym for synonym in dict.fromkeys(found) if synonym.strip() and synonym != word)


@cache
def close_synonyms(word: str) -> tuple[str, ...]:
    """Synonyms of the commonest sense that has any, as the commonest part of speech, no names.

    They are inflected like `word`; words without a meaning of their own have none.
    """
    found = entries(word)
    if word in STOPWORDS or not found:
        return ()
    own = {True: _OWN_ENTRY_WEIGHT, False: 1}
    entry = max(found, key=lambda entry: entry.uses * own[entry.lemma == word])
    for sense in entry.senses:
        plain = [synonym for synonym in sense if _PLAIN.fullmatch(synonym)]
        alike = (inflect_like(synonym, word, entry.lemma, entry.part) for synonym in plain)
        if different := tuple(synonym for synonym in alike if synonym != word):
            return different
    return ()


def _lemmas(word: str, part: str) -> list[str]:
    """The lemmas of a form, by WordNet's own rules: irregular forms first, then endings."""
    irregular = _exceptions().get((word, part), ())
    if irregular:
        return _known((word, *irregular), part)
    shorter = list(_stripped((word,), part))
    if found := _known((word, *shorter), part):
        return found
    while shorter:
        shorter = list(_stripped(shorter, part))
        if found := _known(shorter, part):
            return found
    return []


def _known(forms: tuple[str, ...] | list[str], part: str) -> list[str]:
    return [form for form in forms if (form, part) in _table()]


def _stripped(forms: tuple[str, ...] | list[str], part: str) -> Iterator[str]:
    for form in forms:
        for ending, instead in (rule.split(":") for rule in _ENDINGS[part]):
            if form.endswith(ending):
                yield form[: -len(ending)] + instead


@cache
def _table() -> dict[tuple[str, str], Entry]:
    table = {}
    for lemma, part, count, text in _lines("wordnet.tsv.gz"):
        senses = tuple(tuple(sense.split("|")) for sense in text.split(";")) if text else ()
        table[lemma, part] = Entry(lemma, part, int(count), senses)
    return table


@cache
def _exceptions() -> dict[tuple[str, str], tuple[str, ...]]:
    lines = _lines("exceptions.tsv.gz")
    return {(form, part): tuple(lemmas.split("|")) for form, part, lemmas in lines}


def _lines(name: str) -> Iterator[list[str]]:
    text = gzip.decompress(files(DATA).joinpath(name).read_bytes()).decode("ascii")
    for line in text.splitlines():
        yield line.split("\t")
