"""Texts, and the pairs of an image and a text that composed queries are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from queryshift.errors import BadInput

from .item_reading import read_each
from .limits import check_characters


def texts(items: Iterable[Any]) -> list[str]:
    """The texts of a batch as they are, or a `BadItem` for the first that is none."""
    return read_each(items, text)


def text(item: Any) -> str:
    """The text itself, refused where it is no string, is too long, or cannot be written."""
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
    """The images and the texts of composed queries, which are pairs of them."""
    both = read_each(items, _pair)
    return [image for image, _ in both], [words for _, words in both]


def _pair(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise BadInput("expected a composed query: a pair (image, text).")
    return item[0], item[1]
