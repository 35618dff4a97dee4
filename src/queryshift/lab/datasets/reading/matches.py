"""Right answers: matches files and click logs, several for a query, ids as text or numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile, BadInput, unknown
from queryshift.media.bad_rows import BadRows
from queryshift.media.item_collection import Collection, Id
from queryshift.media.item_reading import decoding
from queryshift.media.records import Record, read_records
from queryshift.support.paths import is_file, user_path

Answers = Mapping[str, Sequence[Id]]


def answers_by_query(
    given: Any, columns: Mapping[str, str] | None = None, bad: BadRows | None = None
) -> dict[str, list[Id]]:
    """The right answers of each query by its id as text, from a file or a mapping.

    Args:
        given: `{query id: [candidate id, ...]}`, a JSON file of that, or a table with a row for
            each pair: a query's id and a match, or a click.
        columns: the columns of a table by role, "id" and "partner".
        bad: counts rows that cannot be used, which are left out; without it, the first is an error.
    """
    if isinstance(given, Mapping):
        return {str(query): _several(right) for query, right in given.items()}
    path = user_path(given)
    if not is_file(path):
        raise BadInput(f'there is no file "{path}".')
    if path.suffix.lower() == ".json":
        return answers_by_query(_json(path))
    answers: dict[str, list[Id]] = {}
    bad, rows = bad or BadRows("matches", strict=True), 0
    with closing(read_records(path, columns, bad)) as records:
        for record in records:
            with bad.skipping():
                query, right = _field(record, "id"), _field(record, "partner")
                answers.setdefault(str(query), []).extend(_several(right))
                rows += 1
    bad.check(rows + bad.count)
    return answers


def partners(
    queries: Collection, gallery: Collection, given: Answers | None, bad: BadRows | None = None
) -> list[list[int]]:
    """Positions of each query's right candidates; an empty list for a query without any.

    They come from `given`, else from the partner columns of the queries or candidates. A
    missing candidate is ignored; an unknown query is a bad row.
    """
    places = _places(gallery)
    names = [str(name) for name in queries.ids]
    if given is not None:
        bad, known = bad or BadRows("matches", strict=True), set(names)
        for name in given:
            with bad.skipping():
                if name not in known:
                    raise unknown("query with the id", name, list(dict.fromkeys(names))[:20])
        bad.check(len(given))
        right = [given.get(name, ()) for name in names]
    elif queries.partners:
        right = list(queries.partners)
    elif gallery.partners:
        owned: dict[str, list[Id]] = {}
        for candidate, owners in zip(gallery.ids, gallery.partners, strict=True):
            for owner in owners:
                owned.setdefault(str(owner), []).append(candidate)
        right = [owned.get(name, ()) for name in names]
    else:
        return [[] for _ in names]
    return [
        sorted({places[str(candidate)] for candidate in own if str(candidate) in places})
        for own in right
    ]


def _places(gallery: Collection) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, name in enumerate(gallery.ids):
        if str(name) in places:
            raise BadInput(
                f"two candidates have the id {name!r} (numbers {places[str(name)] + 1} and "
                f"{place + 1}): ids of candidates are used once."
            )
        places[str(name)] = place
    return places


def _several(right: Any) -> list[Id]:
    return list(right) if isinstance(right, list | tuple | set) else [right]


def _field(record: Record, role: str) -> Any:
    value = record.values.get(role)
    if value in (None, ""):
        what = "query's id" if role == "id" else "match or clicked id"
        raise record.problem(f"no {what}: expected columns such as query_id and clicked.")
    return value


def _json(path: Path) -> dict[str, Any]:
    with decoding(path, "JSON"):
        stored = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(stored, dict):
        raise BadFile(f'"{path}" holds no matches: expected {{"query id": ["candidate id"]}}.')
    return stored
