"""The corruptions with the quirks of the published benchmark's scripts, which its numbers contain.

The scripts (MM_Robustness, behind the COCO and Flickr benchmarks) do more than they mean to:
nlpaug spaces every caption anew, and EDA lower-cases it, drops all but a to z, takes synonyms
from every sense of a word, names of people included, and inserts synonyms of "a" and "of" too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from queryshift.errors import unknown

from ..corruption import Corruption
from . import character_level, word_level
from .caption_words import check_caption
from .wordnet import every_synonym

if TYPE_CHECKING:
    from numpy.random import Generator


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
