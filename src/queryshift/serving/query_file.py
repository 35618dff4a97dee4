"""An operator's own queries in a file: ordinary ones, and samples to try on the page."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile, Error
from queryshift.galleries.hits import Id

from .answering.queries import FILES, Raw, raw_query


def read_queries(path: Path, modality: str) -> list[Raw]:
    """The queries of a file of JSON lines.

    Args:
        path: each line is a query as a search takes it, `{"text": "a red square"}`; a picture or
            sound may be the name of a file beside it, `{"image_file": "red.png"}`.
        modality: what one query of the collection is.
    """
    return [raw_query(line.get("query", line), modality) for line in _lines(path)]


class FileWorld:
    """Samples of an operator's file; of candidates only the id is known.

    Args:
        path: JSON lines `{"query": ..., "right": [ids]}`.
    """

    def __init__(self, path: Path) -> None:
        self._samples = [
            {"id": number, "query": line.get("query", line), "right": line.get("right", [])}
            for number, line in enumerate(_lines(path))
        ]

    def samples(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Some of the file's queries, in its order."""
        return self._samples[start:stop]

    def candidate(self, candidate: Id) -> dict[str, Any]:
        """The id."""
        return {"id": candidate}

    def ordinary(self) -> list[Any]:
        """None: the collection's own file says which queries are ordinary."""
        return []


def _lines(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    try:
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            query = line.get("query", line)
            for kind in FILES:
                if name := query.pop(f"{kind}_file", None):
                    content = (path.parent / name).read_bytes()
                    query[kind] = base64.b64encode(content).decode()
            found.append(line)
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f'"{path}" cannot be read ({error}).') from error
    except (ValueError, AttributeError, Error) as error:
        raise BadFile(
            f'line {len(found) + 1} of "{path}" is no query ({error}): expected '
            'one as a search takes it, {"text": "..."}.'
        ) from error
    return found
