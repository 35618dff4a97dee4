"""What the published benchmark's scripts do: their quirks, levels and similarity filter."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from queryshift.errors import BadInput, unknown

from ..corruption import Corruption, check_severity
from ..names import NAMES
from . import character_level, word_level
from .caption_words import LEVELS, Level, check_caption
from .wordnet import every_synonym

if TYPE_CHECKING:
    from numpy.random import Generator


def at_level(corruption: Corruption, level: int) -> Corruption:
    """The character or word corruption fixed at a published level, 1 to 7, at every severity."""
    if corruption.__name__ in NAMES["text"]["sentence"]:
        raise BadInput(
            f"{corruption.__name__} has no levels: the published benchmark has one form of it."
        )
    if level not in LEVELS:
        raise BadInput(f"level is {level!r}; the published levels are 1 to {LEVELS[-1]}.")
    return _AtLevel(corruption, int(level))


@dataclass(frozen=True)
class _AtLevel:
    corruption: Corruption
    level: int

    @property
    def __name__(self) -> str:
        return f"at_level({self.corruption.__name__}, {self.level})"

    def __call__(self, caption: str, severity: int, rng: Generator, /) -> str:
        check_severity(severity)
        corrupted: str = self.corruption(caption, Level(self.level), rng)
        return corrupted


def as_published(corruption: Corruption) -> Corruption:
    """The variant of a character or word corruption that the published scripts made."""
    name = corruption.__name__
    if name not in _VARIANTS:
        raise unknown("corruption with a published variant", name, _VARIANTS)
    return _Published(name, *_VARIANTS[name])


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


@dataclass(frozen=True)
class _Published:
    name: str
    prepare: Callable[[str], str]
    corrupt: Callable[[str, int, Generator], str]

    @property
    def __name__(self) -> str:
        return f"as_published({self.name})"

    def __call__(self, caption: str, severity: int, rng: Generator, /) -> str:
        # Nothing but other scripts or signs: the scripts would stop here.
        prepared = self.prepare(check_caption(caption)) or caption
        return self.corrupt(prepared, severity, rng)


_VARIANTS: dict[str, tuple[Callable[[str], str], Callable[[str, int, Generator], str]]] = {
    "ocr": (respaced, character_level.ocr),
    "character_insert": (respaced, character_level.character_insert),
    "character_replace": (respaced, character_level.character_replace),
    "character_swap": (respaced, character_level.character_swap),
    "character_delete": (respaced, character_level.character_delete),
    "synonym_replacement": (
        letters_only,
        partial(word_level.synonym_replacement, synonyms=every_synonym),
    ),
    "word_insertion": (letters_only, partial(word_level.word_insertion, synonyms=every_synonym)),
    "word_swap": (letters_only, word_level.word_swap),
    "word_deletion": (letters_only, word_level.word_deletion),
    "insert_punctuation": (str, word_level.insert_punctuation),
}


Encode = Callable[[str], Sequence[float]]


def similar(
    corruption: Corruption, encode: Encode, least: float = 0.9, draws: int = 100
) -> Corruption:
    """`corruption`, redrawn until the cosine of the two captions' vectors is at least `least`.

    After `draws` draws the last one is kept. `encode` gives one vector for one caption; the
    published scripts used sentence-transformers/paraphrase-mpnet-base-v2, for the word level and
    the four styles only.
    """
    return _Similar(corruption, encode, least, draws)


@dataclass(frozen=True)
class _Similar:
    corruption: Corruption
    encode: Encode
    least: float
    draws: int

    @property
    def __name__(self) -> str:
        return f"similar({self.corruption.__name__})"

    def __call__(self, caption: str, severity: int, rng: Generator, /) -> str:
        clean = self.encode(caption)
        drawn: str = caption
        for _ in range(self.draws):
            drawn = self.corruption(caption, severity, rng)
            if _cosine(clean, self.encode(drawn)) >= self.least:
                break
        return drawn


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.sqrt(_dot(one, one) * _dot(other, other))
    return _dot(one, other) / lengths if lengths else 0.0


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(float(x) * float(y) for x, y in zip(one, other, strict=True))
