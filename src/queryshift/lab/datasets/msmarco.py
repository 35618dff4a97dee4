"""MS MARCO passages with the judgements of TREC DL 2019, and its queries with typing errors.

5,000 passages, which hold all that are relevant to the 43 queries: a check, near its ceiling. The
ten misspelt versions of each query are one stream.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from queryshift.errors import BadFile
from queryshift.media.item_reading import decoding

from .dataset import Dataset
from .reading.reader import TEXT, developed, find_file, read_lines, records

PASSAGES = "datasets/msmarco"  # in the repository embedding-leaderboard
QUERIES = "data/dl2019"  # in the repository CharacterBERT-DR
REPOSITORIES = ("", "embedding-leaderboard", "CharacterBERT-DR")
RELEVANT = 2  # the lowest grade that TREC counts as relevant
VERSIONS = 10
DEVELOPED = 0.3  # of the queries


def read(name: str, root: Path, part: str, query: str) -> Dataset:
    """The queries of one part, as they are or in their misspelt versions."""
    side, _, way = part.partition("-")
    corpus = _find(root, PASSAGES, "corpus.jsonl")
    with decoding(corpus, "JSON lines"):
        passages = records(corpus, list(map(json.loads, read_lines(corpus))), _id=TEXT, text=TEXT)
    place = {each["_id"]: at for at, each in enumerate(passages)}
    right: dict[str, list[int]] = {}
    for asked, passage, grade in _table(_find(root, PASSAGES, "qrels/test.tsv"), 3):
        if int(grade) >= RELEVANT and passage in place:
            right.setdefault(asked, []).append(place[passage])
    misspelt = [f".typo{n}" for n in range(1, VERSIONS + 1)]
    asked_as = [
        (f"{version}:{number}".strip(".:"), number, text)
        for version in (misspelt if way == "typos" else [""])
        for number, text in _table(_find(root, QUERIES, f"queries.dl2019{version}.tsv"), 2)
        if number in right and developed(number, DEVELOPED) == (side == "dev")
    ]
    return Dataset(
        name,
        "text",
        "text",
        queries=[text for _, _, text in asked_as],
        query_ids=[name for name, _, _ in asked_as],
        candidates=[each["text"] for each in passages],
        matches=[right[number] for _, number, _ in asked_as],
        candidate_ids=list(place),
        counts={
            "passages": len(passages),
            "queries": len(asked_as),
            "pairs": sum(len(right[number]) for _, number, _ in asked_as),
        },
    )


def _find(root: Path, folder: str, name: str) -> Path:
    """A file of either repository: cloned into the root, copied there, or the file alone."""
    inside = (str(PurePosixPath(repository) / folder / name) for repository in REPOSITORIES)
    return find_file(root, name, *inside)


def _table(path: Path, columns: int) -> list[list[str]]:
    """The rows of a file with tabs between its columns."""
    rows = [line.split("\t") for line in read_lines(path)]
    for number, row in enumerate(rows, start=1):
        if len(row) != columns:
            raise BadFile(f'"{path}": line {number} has {len(row)} columns, expected {columns}.')
    return rows
