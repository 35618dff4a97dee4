"""Word-level corruptions after EDA (Wei and Zou, 2019) and AEDA (Karimi et al., 2021)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numpy.random import Generator

from .caption_words import (
    STOPWORDS,
    check_caption,
    join_words,
    like_case,
    pick,
    rate,
    sample,
    split_words,
)
from .wordnet import close_synonyms

Synonyms = Callable[[str], Sequence[str]]

_PUNCTUATION = ".,!?;:"
_TRIES = 10


def synonym_replacement(
    caption: str, severity: int, rng: Generator, synonyms: Synonyms = close_synonyms
) -> str:
    """Content words replaced by synonyms, at every place they occur."""
    words, gaps = split_words(caption)
    wanted = _count(rate(severity), words)
    content = dict.fromkeys(word.lower() for word in words if word.lower() not in STOPWORDS)
    replaced: dict[str, str] = {}
    for word in sample(rng, list(content), len(content)):
        if len(replaced) < wanted and (choices := synonyms(word)):
            replaced[word] = pick(rng, choices)
    changed = [like_case(replaced.get(word.lower(), word), word) for word in words]
    return join_words(changed, gaps)


def word_insertion(
    caption: str, severity: int, rng: Generator, synonyms: Synonyms = close_synonyms
) -> str:
    """Synonyms of words of the caption put in front of other words."""
    words, gaps = split_words(caption)
    for _ in range(_count(rate(severity), words) if words else 0):
        if choices := _choices(words, rng, synonyms):
            place = int(rng.integers(len(words)))
            words.insert(place, pick(rng, choices))
            gaps.insert(place + 1, " ")
    return join_words(words, gaps)


def word_swap(caption: str, severity: int, rng: Generator) -> str:
    """Pairs of words exchanged; punctuation stays where it was."""
    words, gaps = split_words(caption)
    for _ in range(_count(rate(severity), words) if len(words) > 1 else 0):
        one, other = sample(rng, range(len(words)), 2)
        words[one], words[other] = words[other], words[one]
    return join_words(words, gaps)


def word_deletion(caption: str, severity: int, rng: Generator) -> str:
    """Each word left out with the probability of the level; one word always stays."""
    words, gaps = split_words(caption)
    kept = rng.random(len(words)) > rate(severity)
    if len(words) < 2:
        return caption
    if not kept.any():
        kept[int(rng.integers(len(words)))] = True
    text = gaps[0]
    for word, gap, stays in zip(words, gaps[1:], kept, strict=True):
        text = text + word + gap if stays else _closed(text, gap)
    return text.strip()


def insert_punctuation(caption: str, severity: int, rng: Generator) -> str:
    """Punctuation marks put in front of random words."""
    words = check_caption(caption).split(" ")
    most = int(rate(severity) * len(words) + 1)
    if not caption.strip():
        return caption
    places = set(sample(rng, range(len(words)), int(rng.integers(1, most + 1))))
    marked = [
        f"{pick(rng, _PUNCTUATION)} {word}" if place in places else word
        for place, word in enumerate(words)
    ]
    return " ".join(marked)


def _count(share: float, words: Sequence[str]) -> int:
    return max(1, int(share * len(words)))


def _choices(words: Sequence[str], rng: Generator, synonyms: Synonyms) -> Sequence[str]:
    for _ in range(_TRIES):
        if choices := synonyms(pick(rng, words).lower()):
            return choices
    return ()


def _closed(text: str, gap: str) -> str:
    """`text` and the gap after a word that is left out, without a doubled space."""
    return text + gap.lstrip() if gap[:1].isspace() else text.rstrip() + gap
