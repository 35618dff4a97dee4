"""Active to passive, for captions simple enough to be sure of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from .. import inflection
from ..inflection import is_plural
from . import lexicon
from .phrases import (
    is_noun_phrase,
    is_several,
    is_subject,
    object_length,
    relative_pronoun,
    with_article,
)
from .sentence import Sentence
from .verbs import Verb, find_verbs
from .word_kinds import is_living, is_participle, looks_like_noun

Words = Sequence[str]

_LONG_PHRASE = 5
_RELATIVES = frozenset(("that", "who", "which", "whose"))
_JOINS = frozenset(("and", "or", ",", "by"))


@dataclass(frozen=True)
class Clause:
    """What someone does, to what, and the rest of the caption after it."""

    verb: Verb
    particle: Words
    target: Words
    rest: Words

    def passive(self, finite: bool) -> list[str]:
        """The object and the passive verb: "a stick is being carried"."""
        done = inflection.participle(self.verb.form.lemma)
        several = is_several([word.lower() for word in self.target])
        now, then = ("are", "were") if several else ("is", "was")
        if self.verb.form.kind != "ing":
            verb = [then if self.verb.form.kind == "past" else now, *self.verb.adverbs, done]
        elif finite:
            tense = then if self.verb.be in {"was", "were"} else now
            verb = [tense, *self.verb.adverbs, "being", done]
        else:
            verb = ["being", done]
        return [*self.target, *verb, *self.particle]


def to_passive(caption: str) -> str:
    """Turn "A man riding a wave" into "A wave being ridden by a man"; leave what is unclear."""
    sentence, aside = Sentence.of(caption).before_aside()
    if not sentence.is_simple():
        return caption
    finite, participle = find_verbs(sentence.words)
    main = finite or participle
    if main is None or not is_subject(sentence.words[: main.start]):
        return caption
    turned = (
        _turn_main(sentence, main)
        or (finite and participle and _turn_modifier(sentence, participle, finite))
        or _turn_companion(sentence, main)
    )
    return sentence.spoken([*turned, *aside]) if turned else caption


def _turn_main(sentence: Sentence, verb: Verb) -> list[str] | None:
    """Turn "A dog carries a stick" into "A stick is carried by a dog"."""
    clause = _clause(sentence, verb)
    if clause is None:
        return None
    agent = _agent(sentence.uncapitalised[: verb.start])
    passive = clause.passive(finite=verb.be is not None)
    if told := _told_of_agent(clause, agent):
        phrase, relative = told
        return [*passive, *phrase, *agent, *relative]
    if not _can_follow(clause.rest):
        return None
    phrase, subordinate = _split_subordinate(clause.rest)
    if _belongs_last(phrase, agent):
        return [*passive, *agent, *phrase, *subordinate]
    return [*passive, *phrase, *agent, *subordinate]


def _turn_modifier(sentence: Sentence, verb: Verb, finite: Verb) -> list[str] | None:
    """Turn "A man wearing a hat walks" into "A hat is being worn by a man who walks"."""
    clause = _clause(sentence, verb, stop=finite.start)
    if clause is None or clause.rest or verb.form.lemma not in lexicon.ACCOMPANYING:
        return None
    follows = sentence.tokens[finite.start :]
    if "," in follows or not _RELATIVES.isdisjoint(follows):
        return None
    agent = _agent(sentence.uncapitalised[: verb.start])
    return [*clause.passive(finite=True), *agent, relative_pronoun(agent), *follows]


def _turn_companion(sentence: Sentence, main: Verb) -> list[str] | None:
    """Turn "A girl runs holding a bucket" into "A bucket is being held by a girl who runs"."""
    verb = _later_participle(sentence.words, main)
    clause = verb and _clause(sentence, verb)
    if not verb or not clause or not _can_follow(clause.rest):
        return None
    until = verb.start - (sentence.words[verb.start - 1] in {"while", "whilst", "and"})
    told = sentence.tokens[main.start : until]
    if not (_RELATIVES | {"and", ","}).isdisjoint(told):
        return None
    if until == verb.start and any(map(is_living, told)):
        return None  # "runs behind a dog holding a toy": it is the dog that holds it
    agent = _agent(sentence.uncapitalised[: main.start])
    finite = main.form.kind != "ing" or main.be is not None
    relative = [relative_pronoun(agent)] if finite else []
    return [*clause.passive(finite), *clause.rest, *agent, *relative, *told]


def _later_participle(words: Words, main: Verb) -> Verb | None:
    for place in range(main.stop, len(words)):
        form = lexicon.verb_form(words[place], "ing")
        linked = words[place - 1] in {"while", "whilst", "and"}
        at_rest = main.form.lemma in lexicon.POSTURES
        if form and (linked or at_rest or form.lemma in lexicon.ACCOMPANYING):
            return Verb(place, place + 1, form)
    return None


def _clause(sentence: Sentence, verb: Verb, stop: int | None = None) -> Clause | None:
    """The clause around a verb that has an object which can become the subject."""
    words, start = sentence.words[:stop], verb.stop
    after = words[start] if start < len(words) else ""
    if after in lexicon.WITH_PREPOSITION.get(verb.form.lemma, ()):
        start += 1
    elif verb.form.lemma not in lexicon.TRANSITIVE:
        return None
    end = start + object_length(words[start:])
    if not _can_be_turned(words[start:end]):
        return None
    tokens = sentence.tokens[:stop]
    target = _without_owner(tokens[start:end])
    return Clause(verb, words[verb.stop : start], target, tokens[end:])


def _without_owner(target: Words) -> Words:
    """The object as a subject: "his bike" to "a bike", since he has not been named yet."""
    if target[0] not in lexicon.POSSESSIVES:
        return target
    if is_several([word.lower() for word in target]):
        return target[1:]
    return [inflection.article(target[1].lower()), *target[1:]]


def _can_be_turned(target: Words) -> bool:
    """Whether the object can become the subject: not "each other", "a hat walks"."""
    alone = tuple(target) == ("her",)
    if alone or not is_noun_phrase(target) or not lexicon.NEVER_SUBJECTS.isdisjoint(target):
        return False
    if len(target) > 1 and is_participle(target[-1]):
        return False
    if target[0] in {"a", "an"} and is_plural(target[-1]) and {"of", "and"}.isdisjoint(target):
        return False
    if target[0] in lexicon.ADJECTIVES and lexicon.verb_form(target[-1], "base", "s"):
        return False
    return target[-1] not in lexicon.ADJECTIVES and any(map(looks_like_noun, target))


def _agent(subject: Words) -> list[str]:
    if len(subject) == 1 and subject[0] in lexicon.PRONOUNS:
        return ["by", lexicon.PRONOUNS[subject[0]]]
    return ["by", *with_article(subject)]


def _can_follow(rest: Words) -> bool:
    """Whether what comes after the object still makes sense behind a passive verb."""
    if not rest:
        return True
    words = [word.lower() for word in rest]
    known = words[0] in lexicon.PREPOSITIONS | lexicon.CLAUSE_WORDS - {"so", "but"}
    if not (known or words[0].endswith("ly")) or not (_RELATIVES | _JOINS).isdisjoint(words):
        return False
    if any(word in lexicon.AUXILIARIES for word in _split_subordinate(words)[0]):
        return False
    return not any(
        one in lexicon.CLAUSE_WORDS and two.endswith("ing") for one, two in pairwise(words)
    )


def _told_of_agent(clause: Clause, agent: Words) -> tuple[Words, Words] | None:
    """A second verb as something about the agent: "and walks home" to "who walks home"."""
    verb, words = clause.verb, [word.lower() for word in clause.rest]
    if not words or "," in words or not _RELATIVES.isdisjoint(words):
        return None
    if verb.form.lemma in lexicon.ACCOMPANYING and _is(words[0], "ing") and verb.be is None:
        return (), clause.rest
    if (while_doing := _while_doing(words)) is not None and _can_follow(clause.rest[:while_doing]):
        be = "are" if is_several(agent[1:]) else "is"
        told = [relative_pronoun(agent), be, *clause.rest[while_doing + 1 :]]
        return clause.rest[:while_doing], told
    place = words.index("and") if "and" in words[:-1] else -1
    phrase, follows = clause.rest[: max(place, 0)], clause.rest[place + 1 :]
    if place < 0 or not _is(words[place + 1], verb.form.kind) or not _can_follow(phrase):
        return None
    if verb.form.kind == "ing" and verb.be is None:
        return phrase, follows
    return phrase, [relative_pronoun(agent), *([verb.be] if verb.be else []), *follows]


def _while_doing(words: Words) -> int | None:
    pairs = enumerate(pairwise(words))
    return next((at for at, (one, two) in pairs if one == "while" and _is(two, "ing")), None)


def _is(word: str, kind: str) -> bool:
    return lexicon.verb_form(word, kind) is not None


def _split_subordinate(rest: Words) -> tuple[Words, Words]:
    """The phrases right after the object, and what begins with "while" or "as"."""
    for place, word in enumerate(rest):
        if word.lower() in lexicon.CLAUSE_WORDS:
            return rest[:place], rest[place:]
    return rest, ()


def _belongs_last(phrase: Words, agent: Words) -> bool:
    """Whether a phrase reads better after the agent: "by a dog in its mouth"."""
    if any(word.lower() in lexicon.POSSESSIVES | {"to"} for word in phrase):
        return True
    bare = not any(word.lower() in lexicon.PREPOSITIONS for word in agent[1:])
    return bare and len(phrase) > _LONG_PHRASE
