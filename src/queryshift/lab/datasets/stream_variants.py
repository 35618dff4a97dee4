"""Streams closer to real traffic: queries repeated by Zipf's law, near-duplicate candidates.

Streams of which only half is shifted are a corruption: `half_typos`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

EVERY, COPIES, DROPPED = 3, 2, 0.15  # texts with copies, copies of each, words left out


def drawn_by_zipf(rows: Sequence[int], rng: Generator) -> list[int]:
    """As many rows, drawn by Zipf's law: few of them are most of the traffic."""
    share = 1 / np.arange(1, len(rows) + 1)
    return [int(row) for row in rng.choice(rows, size=len(rows), p=share / share.sum())]


def near_duplicates(texts: Sequence[str], rng: Generator) -> list[tuple[int, str]]:
    """Copies of every third text without some of its words, each with the row of the text."""
    copied = (row for row in range(0, len(texts), EVERY) for _ in range(COPIES))
    return [(row, _shortened(texts[row], rng)) for row in copied]


def _shortened(text: str, rng: Generator) -> str:
    """The text without some of its words."""
    words = text.split()
    return " ".join(word for word in words if rng.random() >= DROPPED) or text
