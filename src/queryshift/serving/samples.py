"""What the page can show of a collection: queries to try, the same corrupted, candidates."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PIL import Image

from queryshift.errors import BadFile, BadInput, MissingExtra
from queryshift.galleries.hits import Id
from queryshift.media.bad_rows import BadRows
from queryshift.media.images import image_size
from queryshift.support.registry import CORRUPTIONS

from .answering.queries import FILES, Raw, decoded, raw_query
from .answering.thumbnails import png
from .errors import NotFound

CORRUPTED = ("image", "text")  # kinds of queries that can be
PIXELS = 2**22  # of an image that is corrupted: one takes seconds with more
Value = TypeVar("Value")
logger = logging.getLogger("queryshift.serving")


def read_queries(path: Path, modality: str, strict: bool = False) -> list[Raw]:
    """The queries of a file of JSON lines.

    Args:
        path: each line is a query as a search takes it, `{"text": "a red square"}`; an image or
            audio may be the name of a file beside it, `{"image_file": "red.png"}`.
        modality: what one query of the collection is.
        strict: whether the first bad line is an error; else bad lines are left out.
    """

    def checked(line: dict[str, Any]) -> Raw:
        raw = raw_query(line.get("query", line), modality)
        decoded(raw, modality)
        return raw

    return _read(path, strict, checked)


class FileWorld:
    """Samples of an operator's file; of candidates only the id is known.

    Args:
        path: JSON lines `{"query": ..., "right": [ids]}`; None: there are no samples.
        strict: whether the first bad line is an error.
    """

    def __init__(self, path: Path | None = None, strict: bool = False) -> None:
        lines = _read(path, strict, lambda line: {"query": line, **line}) if path else []
        told = ({"query": line["query"], "right": line.get("right", [])} for line in lines)
        self._samples = [{"id": place, **one} for place, one in enumerate(told)]

    def samples(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Some of the file's queries, in its order."""
        return self._samples[start:stop]

    def candidate(self, candidate: Id) -> dict[str, Any]:
        """The id."""
        return {"id": candidate}

    def reference(self) -> list[Any]:
        """None: the collection's own file says which these are."""
        return []


def _read(path: Path, strict: bool, use: Callable[[dict[str, Any]], Value]) -> list[Value]:
    """What is made of each line; bad ones are left out and logged, a bad file is refused."""
    found, bad = list[Value](), BadRows(f"queries of {path.name}", strict)
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f'"{path}" cannot be read ({error}).') from error
    for number, text in enumerate(texts, start=1):
        with bad.skipping(f"line {number}"):
            found.append(use(_line(path, text)))
    bad.check(len(texts))
    for sentence in bad.sentences:
        logger.warning("%s", sentence)
    return found


def _line(path: Path, text: str) -> dict[str, Any]:
    try:
        line: dict[str, Any] = json.loads(text)
        query = line.get("query", line)
        for kind in FILES:
            if name := query.pop(f"{kind}_file", None):
                content = (path.parent / name).read_bytes()
                query[kind] = base64.b64encode(content).decode()
    except (OSError, ValueError, AttributeError, TypeError) as error:
        told = f'no query ({error}): expected one as a search takes it, {{"text": "..."}}.'
        raise BadFile(told) from error
    return line


def corruption_names(modality: str) -> list[str]:
    """The corruptions of a kind of query; none where the laboratory is not installed."""
    if modality not in CORRUPTED or "names" not in CORRUPTIONS:
        return []
    return [name for family in CORRUPTIONS["names"][modality].values() for name in family]


def corrupted(raw: Raw, modality: str, name: str, severity: int, place: int = 0) -> dict[str, Any]:
    """The query after a corruption, as a search takes it.

    Args:
        raw: the query.
        modality: "image" or "text".
        name: of the corruption.
        severity: 1 to 5.
        place: of the query among others; the noise of each is its own.
    """
    if not corruption_names(modality):
        raise NotFound(f"queries of {modality} cannot be corrupted here, only images and texts.")
    if isinstance(raw, bytes):
        width, height = image_size(raw)
        if width * height > PIXELS:
            raise BadInput(f"{width} x {height} pixels are too many to corrupt: send fewer.")
    item = decoded(raw, modality)
    try:
        given = np.asarray(item) if modality == "image" else item
        how = (CORRUPTIONS["find"](modality, name), severity)
        made = CORRUPTIONS["corrupt"](given, *how, seed=0, item_id=f"{name} {place}")
    except (MissingExtra, ImportError) as error:
        raise NotFound(f"corruptions need the laboratory: {error}") from error
    return {"image": png(Image.fromarray(made))} if modality == "image" else {"text": made}
