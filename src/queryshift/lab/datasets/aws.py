"""Documentation of the AWS API, from the service models in the package botocore.

A document is the description of one operation, a query its service and name in words: "Route 53
list hosted zones". Services are split: those of the development parts have no document in the
test parts. `stream_variants.py` makes the parts with frequent answers and with near-duplicates.
"""

from __future__ import annotations

import gzip
import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from numpy.random import default_rng

from queryshift.media.item_reading import decoding

from .dataset import Dataset
from .reading.reader import developed
from .stream_variants import drawn_by_zipf, near_duplicates

SHORTEST, LONGEST = 40, 300  # characters of a document
DEVELOPED = 0.25  # of the services
COUNTS = {"test": (12_000, 3_000), "dev": (4_600, 1_500)}  # documents, queries
_TAG, _SPACE = re.compile(r"<[^>]+>"), re.compile(r"\s+")
_BRAND = re.compile(r"\b(Amazon|AWS)\b")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True)
class Operation:
    """One operation of a service, its query and its document."""

    service: str
    name: str
    query: str
    document: str


def read(name: str, root: Path, part: str, query: str) -> Dataset:
    """Read one part: its documents and its queries."""
    side, _, way = part.partition("-")
    documents, asked = COUNTS[side]
    rng = default_rng(0)
    known = operations(root, side)
    found = [known[row] for row in rng.permutation(len(known))[:documents]]
    rows = [int(row) for row in rng.permutation(len(found))[:asked]]
    matches: list[Sequence[int]] = [(row,) for row in range(len(found))]
    texts = [each.document for each in found]
    if way == "zipf":
        rows = drawn_by_zipf(rows, rng)
    if way == "duplicates":
        copies = near_duplicates(texts, rng)
        for place, (row, _) in enumerate(copies, start=len(found)):
            matches[row] = (*matches[row], place)
        texts += [text for _, text in copies]
    return Dataset(
        name,
        "text",
        "text",
        queries=[found[row].query for row in rows],
        query_ids=[
            f"{place}:{found[row].service}/{found[row].name}" for place, row in enumerate(rows)
        ],
        candidates=texts,
        matches=[matches[row] for row in rows],
        labels=[found[row].service for row in rows],
        counts={
            "documents": len(texts),
            "queries": len(rows),
            "pairs": sum(len(matches[row]) for row in rows),
        },
    )


def operations(root: Path, side: str) -> list[Operation]:
    """Those of one side's services, in order of their names; a text that repeats counts once."""
    texts: dict[str, Operation] = {}
    for service in sorted(path for path in root.iterdir() if path.is_dir()):
        for each in _of_service(service):
            texts.setdefault(each.document, each)
    return [
        each for each in texts.values() if developed(each.service, DEVELOPED) == (side == "dev")
    ]


def _of_service(folder: Path) -> Iterator[Operation]:
    """The operations in the newest model of a service; a folder without a model has none."""
    models = sorted(folder.glob("*/service-2.json*"))
    if not models:
        return
    path = models[-1]
    with decoding(path, "a model of a service"):
        content = path.read_bytes()
        stored = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    title = " ".join(_BRAND.sub("", stored["metadata"]["serviceFullName"]).split())
    for name, about in stored["operations"].items():
        plain = html.unescape(_TAG.sub(" ", about.get("documentation", "")))
        document = _SPACE.sub(" ", plain).strip()[:LONGEST]
        if len(document) >= SHORTEST:
            spoken = " ".join(_WORD.findall(name)).lower()
            yield Operation(folder.name, name, f"{title} {spoken}", document)
