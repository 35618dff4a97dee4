"""A benchmark of one's own: a small TOML file that names the files, the model and the shifts."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile, check_known
from queryshift.lab.corruptions import find
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.reading.matches import answers_by_query, partners
from queryshift.media.item_collection import read_collection
from queryshift.media.item_reading import decoding

from .benchmarks import AS_IT_IS, Benchmark

KEYS: Mapping[str, type] = {
    **dict.fromkeys(("name", "model", "gallery", "queries", "matches"), str),
    **dict.fromkeys(("shifts", "severities"), list),
    "batch": int,
    "columns": dict,
}


def read_benchmark(path: Path) -> Benchmark:
    """The row that a file describes: `queries` under each of `shifts`, or as they are."""
    stored = _stored(path)
    dataset = own_dataset(path)
    shifts = tuple(stored.get("shifts", ()))
    for shift in shifts:
        find(dataset.query, shift)  # an unknown one is refused before anything is run
    name = str(stored.get("name", path.stem))
    return Benchmark(
        name=name,
        series=name,
        dataset="own",
        file=str(path.resolve()),
        query=dataset.query,
        gallery=dataset.gallery,
        source="a model that encodes both",
        model=stored.get("model", ""),
        shifts=shifts or (AS_IT_IS,),
        severities=tuple(stored.get("severities", (3,))) if shifts else (),
        batch=stored.get("batch", 64),
        temperature=None,
    )


def own_dataset(path: Path) -> Dataset:
    """The queries with a right answer, and the candidates; paths are relative to the file."""
    stored = _stored(path)
    columns = stored.get("columns")
    queries = read_collection(path.parent / stored["queries"], columns)
    gallery = read_collection(path.parent / stored["gallery"], columns)
    given = stored.get("matches")
    right = None if given is None else answers_by_query(path.parent / given, columns)
    matches = partners(queries, gallery, right)
    whole = Dataset(
        str(stored.get("name", path.stem)),
        queries.modality,
        gallery.modality,
        queries=queries.items,
        query_ids=[str(name) for name in queries.ids],
        candidates=gallery.items,
        matches=matches,
        candidate_ids=[str(name) for name in gallery.ids],
    )
    counted = [row for row, places in enumerate(matches) if places]
    if not counted:
        raise BadFile(f'"{path}": no query has a right answer in the gallery: check the ids.')
    return whole.asking(counted)


def _stored(path: Path) -> dict[str, Any]:
    with decoding(path, "TOML"):
        stored = tomllib.loads(path.read_text(encoding="utf-8"))
    for key, value in stored.items():
        check_known(f'key of "{path}"', key, KEYS)
        if not isinstance(value, KEYS[key]):
            raise BadFile(f'"{path}": {key} is {value!r}, expected a {KEYS[key].__name__}.')
    for key in ("gallery", "queries"):
        if key not in stored:
            raise BadFile(f'"{path}" names no {key}: expected {key} = "FILE".')
    return stored
