"""What every text corruption needs: a caption's words, random draws, function words, levels."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import TypeVar

from numpy.random import Generator

from queryshift.errors import BadInput

from ..corruption import check_severity

Item = TypeVar("Item")
DATA = "queryshift.lab.corruptions.data"
_WORD = re.compile(r"([^\W_]+(?:['’-][^\W_]+)*)")


LEVELS = (1, 2, 3, 4, 5, 6, 7)
RATE_PER_LEVEL = 0.05
LEVEL_OF_SEVERITY_1 = 3


class Level(int):
    """A published level, given in the place of a severity."""


def rate(severity: int) -> float:
    """The share of words to touch: 0.15 at severity 1, 0.35 at severity 5."""
    if isinstance(severity, Level):
        return RATE_PER_LEVEL * severity
    return RATE_PER_LEVEL * (check_severity(severity) + LEVEL_OF_SEVERITY_1 - 1)


def check_caption(caption: str) -> str:
    """`caption` itself, if it is text."""
    if not isinstance(caption, str):
        raise BadInput(f"a caption is a str; got {type(caption).__name__}.")
    return caption


def split_words(caption: str) -> tuple[list[str], list[str]]:
    """The words of a caption, and the gaps around them: one gap more than there are words."""
    pieces = _WORD.split(check_caption(caption))
    return pieces[1::2], pieces[::2]


def join_words(words: Sequence[str], gaps: Sequence[str]) -> str:
    """The caption that `split_words` would take apart into these words and gaps."""
    return gaps[0] + "".join(word + gap for word, gap in zip(words, gaps[1:], strict=True))


def like_case(word: str, model: str) -> str:
    """`word` with a capital letter if `model` begins with one."""
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


def pick(rng: Generator, items: Sequence[Item]) -> Item:
    """One of the items."""
    return items[int(rng.integers(len(items)))]


def sample(rng: Generator, items: Sequence[Item], count: int) -> list[Item]:
    """`count` different items, or all where there are fewer, in random order."""
    order = rng.permutation(len(items))[:count]
    return [items[int(index)] for index in order]


ENGLISH = tomllib.loads(files(DATA).joinpath("english.toml").read_text(encoding="utf-8"))
"""Word lists by name; lists of words have spaces between them."""


def words_in(name: str) -> frozenset[str]:
    """The words of one of the lists."""
    return frozenset(ENGLISH[name].split())


STOPWORDS = words_in("stopwords")
