"""Function words that are never replaced by a synonym: closed classes of English, written out."""

from __future__ import annotations

_PRONOUNS = """
i me my myself you your yours yourself yourselves he him his himself she her hers herself
it its itself we our ours ourselves they them their theirs themselves
this that these those who whom what which
"""
_VERBS = """
be am is are was were been being have has had having do does did doing
can will should
"""
_PREPOSITIONS = """
of in on at to by for with from about into over under above below up down out off
through during before after against between
"""
_CONJUNCTIONS = "and or but nor if because as while until than"
_DETERMINERS = "a an the all any both each few more most other some such no own same only"
_ADVERBS = """
not so too very again then once here there when where why how now just further
"""
_CONTRACTED = "s t don"  # what is left of "it's" and "don't" without the apostrophe
STOPWORDS = frozenset(
    " ".join(
        (_PRONOUNS, _VERBS, _PREPOSITIONS, _CONJUNCTIONS, _DETERMINERS, _ADVERBS, _CONTRACTED)
    ).split()
)
