"""How many queries the paper's benchmarks have, as far as it or the publishers say."""

from __future__ import annotations

from queryshift.lab.datasets import DATASETS

from ..benchmarks import BENCHMARKS

_COUNTED = {"image": ("images",), "text": ("pairs", "captions"), "image+text": ("captions",)}


def query_counts(benchmark: str) -> tuple[int, ...]:
    """The publisher's number of queries and the paper's; empty where neither is known."""
    row = BENCHMARKS.get(benchmark)
    if row is None or row.dataset not in DATASETS:
        return ()
    reader = DATASETS[row.dataset]
    parts = row.categories or (row.part or next(iter(reader.parts)),)
    counts: list[int | None] = []
    for what in _COUNTED.get(row.query, ()):
        published = [reader.parts[part].get(what) for part in parts]
        counts.append(None if None in published else sum(filter(None, published)))
        counts.append(reader.paper.get(what) if reader.paper_parts == parts else None)
    return tuple(dict.fromkeys(count for count in counts if count))
