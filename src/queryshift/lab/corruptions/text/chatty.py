"""Chatty requests: courtesies around the words that matter."""

from __future__ import annotations

from numpy.random import Generator

from ..corruption import check_severity
from .caption_words import check_caption

BEFORE = "hi team please can you help me i want to know how i can"
AFTER = "thanks a lot in advance"


def chatty(caption: str, severity: int, rng: Generator) -> str:
    """The request inside a polite sentence; the same at every severity."""
    check_severity(severity)
    return f"{BEFORE} {check_caption(caption)} {AFTER}"
