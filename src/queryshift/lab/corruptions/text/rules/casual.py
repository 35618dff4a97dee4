"""Formal to casual: everyday words, short forms, no capital letter and no full stop."""

from __future__ import annotations

import re

from .sentence import uncapitalised
from .style_words import CASUAL, contracted, restyled

_LEADING_ARTICLE = re.compile(r"^(?:an?|the)\s+(?!few\b|lot\b|couple\b|\W)", re.IGNORECASE)


def to_casual(caption: str) -> str:
    """Write a caption as one would jot it down."""
    text = re.sub(r"^Two\b(?! of\b)", "A couple of", caption.strip())
    text = contracted(restyled(text, CASUAL))
    text = re.sub(r"\s+([,;:!?])", r"\1", re.sub(r"\s*\.$", "", text))
    return uncapitalised(_LEADING_ARTICLE.sub("", text))
