"""English word forms: regular endings by rule, irregular verbs and plurals from tables."""

from __future__ import annotations

import re
from functools import cache

_IRREGULAR_VERBS = """
be was been, bear bore borne, beat beat beaten, become became become, begin began begun,
bend bent bent, bet bet bet, bind bound bound, bite bit bitten, blow blew blown,
break broke broken, bring brought brought, build built built, burst burst burst,
buy bought bought, cast cast cast, catch caught caught, choose chose chosen,
cling clung clung, come came come, cost cost cost, creep crept crept, cut cut cut,
deal dealt dealt, dig dug dug, dive dove dived, do did done, draw drew drawn,
drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen, feed fed fed,
feel felt felt, fight fought fought, find found found, flee fled fled, fling flung flung,
fly flew flown, forget forgot forgotten, forgive forgave forgiven, freeze froze frozen,
get got gotten, give gave given, go went gone, grind ground ground, grow grew grown,
hang hung hung, have had had, hear heard heard, hide hid hidden, hit hit hit,
hold held held, hurt hurt hurt, keep kept kept, kneel knelt knelt, know knew known,
lay laid laid, lead led led, leave left left, lend lent lent, let let let, lie lay lain,
light lit lit, lose lost lost, make made made, mean meant meant, meet met met, pay paid paid,
put put put, quit quit quit, read read read, ride rode ridden, ring rang rung,
rise rose risen, run ran run, say said said, see saw seen, seek sought sought,
sell sold sold, send sent sent, set set set, sew sewed sewn, shake shook shaken,
shed shed shed, shine shone shone, shoot shot shot, show showed shown, shut shut shut,
sing sang sung, sink sank sunk, sit sat sat, sleep slept slept, slide slid slid,
speak spoke spoken, spend spent spent, spin spun spun, split split split,
spread spread spread, spring sprang sprung, stand stood stood, steal stole stolen,
stick stuck stuck, sting stung stung, stride strode stridden, strike struck struck,
string strung strung, swear swore sworn, sweep swept swept, swim swam swum,
swing swung swung, take took taken, teach taught taught, tear tore torn, tell told told,
think thought thought, throw threw thrown, understand understood understood, wake woke woken,
wear wore worn, weave wove woven, weep wept wept, win won won, wind wound wound,
wring wrung wrung, write wrote written, overtake overtook overtaken, withdraw withdrew withdrawn
"""
_PLURALS = """
man men, woman women, child children, person people, foot feet, tooth teeth,
mouse mice, goose geese, ox oxen, leaf leaves, knife knives, wife wives, life lives,
half halves, shelf shelves, calf calves, loaf loaves, wolf wolves, scarf scarves, sheep sheep,
deer deer, fish fish, aircraft aircraft, people people, police police, folks folks, series series
"""
_IRREGULAR_PLURALS = dict(pair.split() for pair in _PLURALS.split(","))
_DOUBLING = re.compile(r"[^aeiou]*(?:qu)?[aeiou][bdfgklmnprstvz]")
_DOUBLING_LONG = frozenset(("admit", "begin", "commit", "control", "forget", "prefer", "refer"))


@cache
def _irregular() -> dict[str, tuple[str, str]]:
    rows = (row.split() for row in _IRREGULAR_VERBS.split(","))
    return {lemma: (past, participle) for lemma, past, participle in rows}


def ing(verb: str) -> str:
    """ride: riding, hug: hugging, lie: lying."""
    if verb.endswith("ie"):
        return f"{verb[:-2]}ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and verb != "be":
        return f"{verb[:-1]}ing"
    return f"{_doubled(verb)}ing"


def past(verb: str) -> str:
    """ride: rode, hug: hugged, carry: carried."""
    return _irregular()[verb][0] if verb in _irregular() else _regular_past(verb)


def participle(verb: str) -> str:
    """ride: ridden, hug: hugged, carry: carried."""
    return _irregular()[verb][1] if verb in _irregular() else _regular_past(verb)


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
