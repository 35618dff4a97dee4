"""The published benchmark's scripts: their quirks, levels and similarity filter."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from numpy.random import Generator

from queryshift.errors import BadInput, check_known

from ..corruption import Composite, Corruption, check_severity
from ..names import NAMES
from . import character_level, word_level
from .caption_words import LEVELS, Level, check_caption
from .wordnet import every_synonym

Encode = Callable[[str], Sequence[float]]
Prepare = Callable[[str], str]
TextFunction = Callable[[str, int, Generator], str]


def at_level(corruption: Corruption, level: int) -> Corruption:
    """The character or word corruption fixed at a published level, 1 to 7, at every severity."""
    if corruption.__name__ in NAMES["text"]["sentence"]:
        raise BadInput(
            f"{corruption.__name__} has no levels: the published benchmark has one form of it."
        )
    if level not in LEVELS:
        raise BadInput(f"level is {level!r}; the published levels are 1 to {LEVELS[-1]}.")
    name = f"at_level({corruption.__name__}, {level})"
    return Composite(name, _at_level, (corruption, int(level)))


def _at_level(
    corruption: Corruption, level: int, caption: str, severity: int, rng: Generator
) -> Any:
    check_severity(severity)
    return corruption(caption, Level(level), rng)


def as_published(corruption: Corruption) -> Corruption:
    """The variant of a character or word corruption that the published scripts made."""
    name = corruption.__name__
    check_known("corruption with a published variant", name, _VARIANTS)
    return Composite(f"as_published({name})", _published, _VARIANTS[name])


def respaced(caption: str) -> str:
    """A caption split and joined as nlpaug does: "A T-shirt ." becomes "A T - shirt."."""
    text = " ".join(re.findall(r"\w+|[^\w\s]", caption))
    text = re.sub(r"\s([.,:;?!%]+)([ '\"`])", r"\1\2", text)
    text = re.sub(r"\s([.,:;?!%]+)$", r"\1", text)
    text = re.sub(r"\s([\[({<])\s", r" \1", text)
    return re.sub(r"\s([\])}>])\s", r"\1 ", text)


def letters_only(caption: str) -> str:
    """A caption as EDA cleans it: lower case, a to z and single spaces."""
    joined = re.sub(r"['’]", "", caption).lower()
    return " ".join(re.sub(r"[^a-z]", " ", joined).split())


def _published(
    prepare: Callable[[str], str],
    corrupt: TextFunction,
    caption: str,
    severity: int,
    rng: Generator,
) -> str:
    # Nothing but other scripts or signs: the scripts would stop here.
    return corrupt(prepare(check_caption(caption)) or caption, severity, rng)


_VARIANTS: dict[str, tuple[Prepare, TextFunction]] = {
    **{name: (respaced, getattr(character_level, name)) for name in NAMES["text"]["character"]},
    "synonym_replacement": (
        letters_only,
        partial(word_level.synonym_replacement, synonyms=every_synonym),
    ),
    "word_insertion": (letters_only, partial(word_level.word_insertion, synonyms=every_synonym)),
    "word_swap": (letters_only, word_level.word_swap),
    "word_deletion": (letters_only, word_level.word_deletion),
    "insert_punctuation": (str, word_level.insert_punctuation),
}


def similar(
    corruption: Corruption, encode: Encode, least: float = 0.9, draws: int = 100
) -> Corruption:
    """`corruption`, redrawn until the cosine of the two captions' vectors is at least `least`.

    After `draws` draws the last one is kept. `encode` gives one vector for one caption; the
    published scripts used sentence-transformers/paraphrase-mpnet-base-v2, for the word level and
    the four styles only.
    """
    return Composite(
        f"similar({corruption.__name__})", _similar, (corruption, encode, least, draws)
    )


def _similar(
    corruption: Corruption,
    encode: Encode,
    least: float,
    draws: int,
    caption: str,
    severity: int,
    rng: Generator,
) -> str:
    clean, drawn = encode(caption), caption
    for _ in range(draws):
        drawn = corruption(caption, severity, rng)
        if _cosine(clean, encode(drawn)) >= least:
            break
    return drawn


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.sqrt(_dot(one, one) * _dot(other, other))
    return _dot(one, other) / lengths if lengths else 0.0


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(float(x) * float(y) for x, y in zip(one, other, strict=True))
