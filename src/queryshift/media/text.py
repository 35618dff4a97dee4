"""Texts, and composed queries: pairs of an image and a text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from queryshift.errors import BadInput

from .item_reading import read_each
from .limits import check_characters


def texts(items: Iterable[Any]) -> list[str]:
    """Check the texts of a batch; the first bad item raises `BadItem`."""
    return read_each(items, text)


def text(item: Any) -> str:
    """Return the text; refuse one that is no string, too long, or not valid Unicode."""
    if not isinstance(item, str):
        raise BadInput("expected a text: a string.")
    check_characters(len(item))
    try:
        item.encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"got {item[error.start]!r}, half a character, which no tokenizer takes: read the text "
            "as UTF-8, or leave such characters out."
        ) from None
    return item


def pairs(items: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Split composed queries into their images and their texts."""
    both = read_each(items, _pair)
    return [image for image, _ in both], [words for _, words in both]


def _pair(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise BadInput("expected a composed query: a pair (image, text).")
    return item[0], item[1]
