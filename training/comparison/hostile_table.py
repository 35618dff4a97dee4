"""The tables of hostile streams from what `training.comparison.hostile` kept.

python -m training.comparison.hostile_table docs/results/hostile.jsonl [dev]
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from .hostile import BARE, GUARDED
from .hostile_streams import STREAMS

PARTS = ("recall", "after", "after, adapting")
TABLES = (("rest", "default"), ("tcr", "shot"), ("rest+hubs", "frozen+hubs"))
Key = tuple[str, str, str]  # stream, method and guard
Runs = dict[Key, list[list[float]]]  # the three recalls of each seed


def read(path: Path, world: str) -> Runs:
    """The runs of a world, of those seeds that the frozen model was asked too."""
    kept = [line for line in map(json.loads, path.read_text().splitlines())]
    lines = [line for line in kept if line["world"] == world]
    asked = {(line["stream"], line["seed"]) for line in lines if line["method"] == "frozen"}
    found: Runs = defaultdict(list)
    for line in lines:
        if (line["stream"], line["seed"]) in asked:
            key = line["stream"], line["method"], line["guard"]
            found[key].append([line[part] for part in PARTS])
    return found


def means(runs: list[list[float]]) -> list[float]:
    """Each part's mean over the seeds."""
    return [mean(part) for part in zip(*runs, strict=True)]


def table(found: Runs, methods: tuple[str, ...]) -> Iterator[str]:
    """A row for each stream that the methods were asked, bare and guarded."""
    columns = [(method, guard) for method in methods for guard in (BARE, GUARDED)]
    yield "| stream | seeds | frozen | " + " | ".join(f"{m}, {g}" for m, g in columns) + " |"
    yield "|---|--:|--:|" + "--:|" * len(columns)
    for stream in STREAMS:
        runs = [found.get((stream, *column), []) for column in (("frozen", BARE), *columns)]
        if all(runs):
            cells = " | ".join(_cell(means(one)) for one in runs)
            yield f"| {stream} | {len(runs[1])} | {cells} |"


def _cell(run: list[float]) -> str:
    on_it, after, adapting = run
    return f"{on_it:.1f}; {after:.1f} / {adapting:.1f}"


def shortfalls(found: Runs) -> Iterator[str]:
    """Where a guarded run is more than a point below the frozen model, or keeps too little."""
    for (stream, method, guard), runs in found.items():
        frozen, bare = (found.get((stream, *one)) for one in (("frozen", BARE), (method, BARE)))
        if guard == BARE or not frozen or not bare:
            continue
        pairs = zip(means(frozen), means(runs), strict=True)
        lost = max(one - other for one, other in pairs)
        gained = means(bare)[0] - means(frozen)[0]
        kept = (means(runs)[0] - means(frozen)[0]) / gained if gained > 1 else 1.0
        if lost > 1 or kept < 0.9:
            yield f"{stream}, {method}, {guard}: at most {lost:.2f} below, keeps {kept:.0%}"


def main(path: Path, world: str = "test") -> None:
    found = read(path, world)
    for methods in TABLES:
        print(*table(found, methods), "", sep="\n")
    print(*shortfalls(found), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
