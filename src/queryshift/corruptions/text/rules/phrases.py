"""Captions taken apart: tokens, noun phrases, and where the first clause has its verb."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from queryshift.corruptions.text import inflection
from queryshift.corruptions.text.inflection import is_plural
from queryshift.corruptions.text.rules import lexicon
from queryshift.corruptions.text.rules.lexicon import Form, verb_form
from queryshift.corruptions.text.wordnet import entries

_TOKEN = re.compile(r"[\w’']+(?:-[\w’']+)*|[^\w\s]")
_PLAIN = re.compile(r"[^\W\d_][^\W\d_'-]*(?:['-][^\W\d_]+)*|,")
_END = re.compile(r"\s*[.!]?\s*$")
_NO_PARTICIPLES = frozenset(("red", "bed", "shed", "sled", "seed", "weed", "feed", "speed"))


@dataclass(frozen=True)
class Sentence:
    """The tokens of a caption without its full stop, as written and in lower case."""

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    end: str

    @classmethod
    def of(cls, caption: str) -> Sentence:
        """Take a caption apart."""
        stop = _END.search(caption)
        end = stop[0].rstrip() if stop else ""
        body = _END.sub("", caption)
        tokens = tuple(_TOKEN.findall(body))
        return cls(tokens, tuple(token.lower() for token in tokens), end)

    @property
    def uncapitalised(self) -> tuple[str, ...]:
        """The tokens as they stand inside a sentence; names keep their capital letter."""
        return (uncapitalised(self.tokens[0]), *self.tokens[1:])

    def before_aside(self) -> tuple[Sentence, tuple[str, ...]]:
        """The sentence up to ", while" or ", with", and what comes from there."""
        for place, (one, two) in enumerate(pairwise(self.words)):
            if one == "," and two in {"while", "as", "with", "whilst"}:
                kept = Sentence(self.tokens[:place], self.words[:place], self.end)
                return kept, self.tokens[place:]
        return self, ()

    def spoken(self, words: Sequence[str]) -> str:
        """Other words in place of this sentence's own, with its capital letter and full stop."""
        text = " ".join(words).replace(" ,", ",")
        if self.tokens[0][:1].isupper():
            text = text[:1].upper() + text[1:]
        return text + self.end

    def is_simple(self) -> bool:
        """Whether it is one run of English words without quotes, brackets or several sentences."""
        return len(self.words) > 2 and all(
            re.fullmatch(r"[a-z][a-z'-]*|,", word) for word in self.words
        )


def uncapitalised(text: str) -> str:
    """A text that began a sentence, as it stands inside one; names keep their capital letter."""
    first = text.split(" ")[0]
    if first.lower() in lexicon.PROPER or (len(first) > 1 and first.isupper()):
        return text
    return text[:1].lower() + text[1:]


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
        return form if follows and _is_mostly_noun(before) else None
    if form and several and not is_plural(before) and before not in lexicon.COUNT_NOUNS:
        return form if looks_like_noun(before) else None
    return form or (verb_form(word, "past") if after in lexicon.DETERMINERS else None)


def _participle_after_noun(words: Sequence[str], place: int) -> Form | None:
    describes = " ".join(words[place + 1 : place + 2]) in lexicon.DESCRIBED_BY_VERB
    before = words[place - 1]
    if describes or begins_noun(before) or before in lexicon.COMPOUND_FIRSTS:
        return None
    return verb_form(words[place], "ing")


def begins_noun(word: str) -> bool:
    """Whether a noun must follow: after "a", "his", "of", "red", "and"."""
    return (
        word in lexicon.DETERMINERS | lexicon.POSSESSIVES | lexicon.PREPOSITIONS
        or word in lexicon.ADJECTIVES
        or word in {"and", "or", ","}
    )


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


def _is_collective(phrase: Sequence[str]) -> bool:
    """Whether it is "a group of girls", which may do something together."""
    return any(one in lexicon.COLLECTIVES and two == "of" for one, two in pairwise(phrase))


def with_article(tokens: Sequence[str]) -> list[str]:
    """A noun phrase with the article that a headline leaves out: "young boy" to "a young boy"."""
    words = [token.lower() for token in tokens]
    head = head_of(words)
    verbal = verb_form(words[0], "ing")
    bare = not (_determines(words[0]) or words[0] in lexicon.PRONOUNS or verbal)
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
    if any(_determines(two) and _ends_noun(one) for one, two in pairwise(words)):
        return False
    return not begins_noun(words[-1]) or words[-1] in lexicon.PLURAL_DETERMINERS | {"white"}


def is_subject(words: Sequence[str]) -> bool:
    """Whether they are someone who does something, and not "a closeup of a man"."""
    return is_noun_phrase(words) and lexicon.PICTURES.isdisjoint(words)


def is_english(words: Sequence[str]) -> bool:
    """Whether at least half of the words are English, so that the rules may be tried."""
    little = lexicon.DETERMINERS | lexicon.PREPOSITIONS | lexicon.POSSESSIVES | lexicon.AUXILIARIES
    known = [word in little or bool(entries(word)) for word in words if word.isalpha()]
    return 2 * sum(known) >= len(known) > 0


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


def is_living(word: str) -> bool:
    """Whether a noun is a person or an animal."""
    return word in lexicon.PEOPLE | lexicon.ANIMALS | lexicon.COUNT_NOUNS


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
    if before and before not in {"of", "and", "all", "both"} and _determines(word):
        return True
    if verb_form(word, "ing"):
        return not begins_noun(before)
    return False


def _determines(word: str) -> bool:
    return word in lexicon.DETERMINERS | lexicon.POSSESSIVES


def relative_pronoun(phrase: Sequence[str]) -> str:
    """ "who" for people, "that" for everything else."""
    people = any(
        word.lower() in lexicon.PEOPLE or word.endswith(("er", "ers", "ist", "ists"))
        for word in phrase
    )
    return "who" if people else "that"


def is_participle(word: str) -> bool:
    """Whether a word looks like "covered" or "thrown"."""
    if word in _NO_PARTICIPLES:
        return False
    return word.endswith("ed") or verb_form(word, "participle") is not None


def looks_like_noun(word: str) -> bool:
    """Whether texts use a word as a noun or adjective more often than as a verb."""
    noun, verb, adjective = _uses(word)
    return not entries(word) or max(noun, adjective) >= max(verb, 0)


def _is_mostly_noun(word: str) -> bool:
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
