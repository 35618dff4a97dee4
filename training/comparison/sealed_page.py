"""Write docs/results/sealed.md from the lines of `training.comparison.sealed`.

python -m training.comparison.sealed_page         writes the page from the kept run below
python -m training.comparison.sealed_page FILE    prints the tables of another run
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from queryshift.lab.datasets.tangram import TASKS

from .sealed_streams import SEVERITIES, Stream
from .tables import TASK_NAMES, Difference, table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results" / "sealed.md"
TEMPLATE = Path(__file__).with_suffix(".md")
KEPT = "docs/results/sealed.jsonl.gz"
RUN = "world `sealed-6`, 2026-11-18, commit 7608e3f, opened once"

OURS, SOURCE, DRAWS = "default", "frozen", 2000
PUBLISHED = ("rest", "tcr", "shot")
OTHERS = (SOURCE, "frozen+hubs", *PUBLISHED, "shot+hubs", "0.1.0")
SHIFTED = ("online", "diverse", "zipf", "few", "half", "tenth", "sorted")
CLEAN = ("clean", "clean zipf", "repeated, during", "repeated, after")
AMID = ("noise, during", "noise, after", "sorted, after")
TITLES = {
    "online": "one shift for the whole stream",
    "diverse": "another shift for every query",
    "zipf": "one shift, popular answers (Zipf law)",
    "few": "one shift, 20 different answers",
    "half": "every second query shifted",
    "tenth": "every tenth query shifted",
    "sorted": "one shift, sorted by content",
    "clean": "clean queries only",
    "clean zipf": "clean queries, popular answers",
    "repeated, during": "clean queries among one repeated query",
    "repeated, after": "clean queries after the repeated query",
    "noise, during": "clean queries among pure noise",
    "noise, after": "clean queries after pure noise",
    "sorted, after": "clean queries after the sorted stream",
}
Bits = np.ndarray  # (queries,) 1 where the first result was right
Streams = dict[tuple[str, Stream], dict[str, Bits]]  # by phase and stream, of each method


def read(path: Path) -> Streams:
    """The right answers of each method on each stream."""
    found: Streams = defaultdict(dict)
    for line in map(json.loads, gzip.decompress(path.read_bytes()).splitlines()):
        bits = np.unpackbits(np.frombuffer(base64.b64decode(line["hits"]), np.uint8))
        stream = Stream(*(line[name] for name in Stream.__annotations__))
        found[line["phase"], stream][line["method"]] = bits[: line["queries"]].astype(int)
    return found


def chosen(
    streams: Streams,
    kind: str,
    methods: Iterable[str],
    task: str | None = None,
    severity: int | None = None,
) -> list[list[dict[str, Bits]]]:
    """Rows (task, severity) of a kind of stream, with the streams that all methods finished."""
    rows: dict[tuple[str, int], list[dict[str, Bits]]] = defaultdict(list)
    for (phase, one), own in streams.items():
        if (
            ", ".join(filter(None, (one.kind, phase))) == kind
            and set(methods) <= own.keys()
            and task in (None, one.task)
            and severity in (None, one.severity)
        ):
            rows[one.task, one.severity].append(own)
    return list(rows.values())


def recall(rows: list[list[dict[str, Bits]]], method: str) -> float:
    """Mean over rows of the mean over a row's streams, in per cent."""
    return 100 * float(np.mean([np.mean([one[method].mean() for one in row]) for row in rows]))


def difference(rows: list[list[dict[str, Bits]]], other: str, ours: str = OURS) -> Difference:
    """How far ours is above another: paired bootstrap over the queries of every stream."""
    rng, drawn = np.random.default_rng(0), np.zeros(DRAWS)
    for row in rows:
        for own in row:
            points = own[ours] - own[other]
            values, counts = np.unique(points, return_counts=True)
            picked = rng.multinomial(len(points), counts / len(points), size=DRAWS)
            drawn += picked @ values / len(points) / len(row) / len(rows)
    return Difference(recall(rows, ours) - recall(rows, other), 100 * drawn)


def told(found: Difference) -> str:
    """Such as "+1.2 (+0.8 to +1.6)"."""
    points, low, high = (round(number, 1) + 0.0 for number in (found.points, *found.interval))
    return f"{points:+.1f} ({low:+.1f} to {high:+.1f})"


def others(streams: Streams) -> list[str]:
    """The methods that the default is compared with, of those that were run."""
    return [name for name in OTHERS if any(name in own for own in streams.values())]


def losses(streams: Streams) -> Iterator[list[str]]:
    """Every row in which the default is below another beyond chance."""
    for kind in TITLES:
        for task in TASKS:
            for severity in SEVERITIES:
                for other in others(streams):
                    rows = chosen(streams, kind, (OURS, other), task, severity)
                    found = difference(rows, other) if rows else None
                    if found and found.points < 0 and found.beyond_chance:
                        place = [TITLES[kind], TASK_NAMES[task], str(severity)]
                        yield [*place, other, told(found)]


def online(streams: Streams) -> Iterator[list[str]]:
    """Recall by task and severity, over the shifts that all methods finished."""
    methods = (*others(streams), OURS)
    for task in TASKS:
        for severity in SEVERITIES:
            rows = chosen(streams, "online", methods, task, severity)
            if rows:
                numbers = [f"{recall(rows, method):.1f}" for method in methods]
                count = str(sum(map(len, rows)))
                yield [TASK_NAMES[task], str(severity), *numbers, count]


def means(streams: Streams) -> Iterator[list[str]]:
    """The default against each other method, by kind of stream."""
    for kind in SHIFTED:
        found = {other: chosen(streams, kind, (OURS, other)) for other in others(streams)}
        if found[SOURCE]:
            count = str(sum(map(len, found[SOURCE])))
            shown = [told(difference(rows, other)) if rows else "" for other, rows in found.items()]
            yield [TITLES[kind], *shown, count]


def clean(streams: Streams, kinds: Sequence[str]) -> Iterator[list[str]]:
    """Clean queries: frozen, the default, the difference, and the task that loses most."""
    for kind in kinds:
        rows = chosen(streams, kind, (OURS, SOURCE))
        if not rows:
            continue
        by_task = {
            task: difference(own, SOURCE)
            for task in TASKS
            if (own := chosen(streams, kind, (OURS, SOURCE), task))
        }
        worst = min(by_task, key=lambda task: by_task[task].points)
        numbers = [f"{recall(rows, method):.1f}" for method in (SOURCE, OURS)]
        whole, one = told(difference(rows, SOURCE)), told(by_task[worst])
        yield [TITLES[kind], *numbers, whole, f"{TASK_NAMES[worst]}: {one}"]


def page(path: Path, name: str, run: str) -> str:
    """The page with the tables of one file."""
    streams = read(path)
    seeds = sorted({stream.seed for _, stream in streams})
    return TEMPLATE.read_text().format(
        data=name,
        run=run,
        seeds=", ".join(map(str, seeds)),
        losses=table(losses(streams), ["stream", "task", "severity", "against", "default - other"]),
        online=table(online(streams), ["task", "severity", *others(streams), OURS, "streams"]),
        means=table(means(streams), ["stream", *others(streams), "streams"]),
        clean=table(
            clean(streams, CLEAN + AMID), ["queries", SOURCE, OURS, "difference", "worst task"]
        ),
    )


def main() -> None:
    if len(sys.argv) > 1:
        print(page(Path(sys.argv[1]), sys.argv[1], "a run of your own"))
    else:
        PAGE.write_text(page(ROOT / KEPT, KEPT, RUN))


if __name__ == "__main__":
    main()
