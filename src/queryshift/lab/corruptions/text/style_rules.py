"""Formal and casual captions by rule: contractions, a small lexicon, capital letter, full stop."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial

from . import inflection
from .caption_words import like_case


def _pairs(text: str) -> dict[str, str]:
    """Rows "plain > styled; plain > styled", the longest phrases first so that they win."""
    rows = (row.split(">") for row in text.replace("\n", ";").split(";") if row.strip())
    pairs = {" ".join(plain.split()): " ".join(styled.split()) for plain, styled in rows}
    return dict(sorted(pairs.items(), key=lambda pair: -len(pair[0])))


_FORMAL = _pairs("""
kid > child; kids > children; guy > man; guys > men; lady > woman; ladies > women
mom > mother; dad > father; grandma > grandmother; grandpa > grandfather
teen > teenager; teens > teenagers; cop > police officer; cops > police officers
doggy > dog; person > individual; people > individuals
bike > bicycle; bikes > bicycles; biker > cyclist; bikers > cyclists; motorbike > motorcycle
plane > airplane; photo > photograph; photos > photographs; pic > photograph
tv > television; phone > telephone; fridge > refrigerator; couch > sofa
big > large; huge > enormous; cute > charming; stuff > items; lots of > many; many > numerous
a bunch of > a number of; bunch of > number of; a couple of > two; a few > several
next to > beside; in front of > before; on top of > atop; close to > near
trying to > attempting to; tries to > attempts to
looking at > observing; looks at > observes; look at > observe
watching > observing; watches > observes; standing on > standing upon; stands on > stands upon
jumping > leaping; jumps > leaps; talking > conversing; talks > converses
doing > performing; does > performs; using > making use of; uses > makes use of
showing > displaying; shows > displays; chasing > pursuing; chases > pursues
helping > assisting; helps > assists; buying > purchasing; buys > purchases
fixing > repairing; fixes > repairs; yelling > shouting; grinning > smiling
""")

_CASUAL = _pairs("""
man > guy; men > guys; gentleman > guy; woman > lady; women > ladies; male > guy; female > lady
child > kid; children > kids; youth > kid; infant > baby; mother > mom; father > dad
grandmother > grandma; grandfather > grandpa; teenager > teen; teenagers > teens
police officer > cop; police officers > cops; puppy > pup; puppies > pups
a person > someone; an individual > someone; people > folks; individuals > folks
young boy > little boy; young girl > little girl; young child > little kid
a group of people > a bunch of folks; a group of > a bunch of; group of > bunch of
several > a bunch of; numerous > lots of; many > lots of; various > all kinds of
bicycle > bike; bicycles > bikes; cyclist > biker; cyclists > bikers
motorcycle > motorbike; motorcycles > motorbikes; airplane > plane
photograph > pic; photographs > pics; picture > pic; pictures > pics; photo > pic
television > tv; telephone > phone; refrigerator > fridge; sofa > couch; automobile > car
large > big; enormous > huge; small > little; tiny > teeny; beautiful > pretty
beside > next to; near > by; atop > on top of; outdoors > outside
attempting to > trying to; attempts to > tries to; performing > doing; performs > does
preparing to > getting ready to; prepares to > gets ready to
looking at > checking out; looks at > checks out; look at > check out
observing > watching; observes > watches; consuming > eating; consumes > eats
seated > sitting; leaping > jumping; leaps > jumps; smiling > grinning; smiles > grins
conversing > chatting; talking > chatting; talks > chats; relaxing > chilling; resting > chilling
""")

_CONTRACTIONS = {
    "won't": "will not",
    "can't": "cannot",
    "n't": " not",
    "it's": "it is",
    "he's": "he is",
    "she's": "she is",
    "that's": "that is",
    "there's": "there is",
    "they're": "they are",
    "i'm": "I am",
    "we're": "we are",
}
_LEADING_ARTICLE = re.compile(r"^(?:an?|the)\s+(?!few\b|lot\b|couple\b|\W)", re.IGNORECASE)


def to_formal(caption: str) -> str:
    """Write a caption out: long forms, longer words, a capital letter and a full stop."""
    text = _expanded(_restyled(caption, tuple(_FORMAL.items())))
    text = re.sub(r"\s+([,.;:!?])", r"\1", text).strip(" ,;:")
    text = text if text.endswith((".", "!", "?", '"')) else f"{text}."
    return text[:1].upper() + text[1:]


def to_casual(caption: str) -> str:
    """Write a caption as one would jot it down: no article, capital letter or full stop."""
    text = _contracted(_restyled(caption.strip(), tuple(_CASUAL.items())))
    text = re.sub(r"\s+([,;:!?])", r"\1", re.sub(r"\s*\.$", "", text))
    bare = _LEADING_ARTICLE.sub("", text)
    return bare[:1].lower() + bare[1:]


def _restyled(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """`text` with every phrase of the table in its other style, capital letters kept."""
    return _pattern(pairs).sub(partial(_replaced, dict(pairs)), text)


@cache
def _pattern(pairs: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    choice = "|".join(re.escape(plain) for plain, _ in pairs)
    return re.compile(rf"(?<![\w'’-])(an? )?({choice})(?![\w'’-])", re.IGNORECASE)


def _replaced(phrases: Mapping[str, str], found: re.Match[str]) -> str:
    article, phrase = found.groups()
    if article and (whole := phrases.get(f"{article}{phrase}".lower())):
        return like_case(whole, article)
    styled = phrases[phrase.lower()]
    if not article:
        return like_case(styled, phrase)
    return f"{like_case(inflection.article(styled), article)} {styled}"


def _expanded(text: str) -> str:
    """ "doesn't" to "does not", "it's" to "it is"; possessives stay."""
    text = text.replace("’", "'")
    for short, full in _CONTRACTIONS.items():
        start = "" if short == "n't" else r"\b"
        text = re.sub(rf"{start}{short}\b", partial(_like_found, full), text, flags=re.IGNORECASE)
    return text


def _like_found(full: str, found: re.Match[str]) -> str:
    return like_case(full, found[0])


def _contracted(text: str) -> str:
    """ "is not" to "isn't", "it is" to "it's"."""
    text = re.sub(r"\b(is|are|was|were|does|do|did|has|have) not\b", r"\1n't", text)
    text = re.sub(r"\bcannot\b|\bcan not\b", "can't", text)
    return re.sub(r"\b(he|she|it|someone) is\b", r"\1's", text, flags=re.IGNORECASE)
