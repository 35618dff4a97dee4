"""An operator's own queries in a file: ordinary ones, and samples to try on the page."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile
from queryshift.galleries.hits import Id
from queryshift.media.bad_rows import BadRows

from .answering.queries import FILES, Raw, decoded, raw_query

logger = logging.getLogger("queryshift.serving")


def read_queries(path: Path, modality: str, strict: bool = False) -> list[Raw]:
    """The queries of a file of JSON lines.

    Args:
        path: each line is a query as a search takes it, `{"text": "a red square"}`; a picture or
            sound may be the name of a file beside it, `{"image_file": "red.png"}`.
        modality: what one query of the collection is.
        strict: whether the first bad line is an error; else bad lines are left out.
    """
    found, bad = list[Raw](), BadRows(f"queries of {path.name}", strict)
    for number, line in _lines(path, bad):
        with bad.skipping(f"line {number}"):
            raw = raw_query(line.get("query", line), modality)
            decoded(raw, modality)
            found.append(raw)
    _tell(bad, len(found))
    return found


class FileWorld:
    """Samples of an operator's file; of candidates only the id is known.

    Args:
        path: JSON lines `{"query": ..., "right": [ids]}`.
        strict: whether the first bad line is an error.
    """

    def __init__(self, path: Path, strict: bool = False) -> None:
        bad = BadRows(f"queries of {path.name}", strict)
        self._samples = [
            {"id": place, "query": line.get("query", line), "right": line.get("right", [])}
            for place, (_, line) in enumerate(_lines(path, bad))
        ]
        _tell(bad, len(self._samples))

    def samples(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Some of the file's queries, in its order."""
        return self._samples[start:stop]

    def candidate(self, candidate: Id) -> dict[str, Any]:
        """The id."""
        return {"id": candidate}

    def ordinary(self) -> list[Any]:
        """None: the collection's own file says which queries are ordinary."""
        return []


def _lines(path: Path, bad: BadRows) -> list[tuple[int, dict[str, Any]]]:
    """The lines that hold a query, each with its number in the file."""
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f'"{path}" cannot be read ({error}).') from error
    found = []
    for number, text in enumerate(texts, start=1):
        with bad.skipping(f"line {number}"):
            found.append((number, _line(path, text)))
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
        raise BadFile(
            f'no query ({error}): expected one as a search takes it, {{"text": "..."}}.'
        ) from error
    return line


def _tell(bad: BadRows, good: int) -> None:
    """Log what was left out; a file of which too much is bad is refused."""
    bad.check(good + bad.count)
    for sentence in bad.sentences:
        logger.warning("%s", sentence)
