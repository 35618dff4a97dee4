"""Formal and casual captions by rule: contractions, a small lexicon, capital letter, full stop."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial

from . import inflection
from .caption_words import ENGLISH, like_case


def _pairs(text: str) -> dict[str, str]:
    """Rows "plain > styled; plain > styled", the longest phrases first so that they win."""
    rows = (row.split(">") for row in text.replace("\n", ";").split(";") if row.strip())
    pairs = {" ".join(plain.split()): " ".join(styled.split()) for plain, styled in rows}
    return dict(sorted(pairs.items(), key=lambda pair: -len(pair[0])))


_FORMAL, _CASUAL = _pairs(ENGLISH["formal"]), _pairs(ENGLISH["casual"])
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
    for short, full in ENGLISH["contractions"].items():
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
