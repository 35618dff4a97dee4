"""What a single query waits, at a tenth of full load, while the session adapts or does not.

    python bench/single.py [--device cpu|cuda] [--tower tangram|vit] [--queries 320] [--rounds 3]

One thread of torch answers and one adapts beside it, so that two cores are used. Rounds of all
kinds take turns in one process; the time is from the moment a query is taken, on the CPU, until
its ten best candidates are there, by the clock on the wall.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from rows import Rows, parser
from towers import add_options, batch_for, encoder_for, gallery_for

from queryshift import REST, Session

FLOOR = "the same session without updates; frozen is one forward and one search, no session"
LOAD = 0.1
GATHER = 16
WARM_UP = 3 * GATHER
COLUMNS = {
    "kind": "",
    "every ms": ".0f",
    "p50 ms": ".2f",
    "p99 ms": ".2f",
    "p50 ratio": ".2f",
    "p99 ratio": ".2f",
    "updates": "",
    "dropped": "",
}
Ask = Callable[[list[Any]], object]


def waits(ask: Ask, items: list[object], queries: int, every: float) -> list[float]:
    """Seconds that each query waits, when one comes every so many seconds."""
    found, due = [], time.perf_counter()
    for number in range(queries):
        time.sleep(max(0.0, due - time.perf_counter()))
        started = time.perf_counter()
        ask([items[number % len(items)]])
        found.append(time.perf_counter() - started)
        due = max(due + every, time.perf_counter())
    return found


def percentile(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100)[share - 1]


def options() -> argparse.Namespace:
    asking = parser(__doc__, rounds=3)
    add_options(asking)
    asking.add_argument("--candidates", type=int, default=25_000)
    asking.add_argument("--queries", type=int, default=320, help="of each kind in a round")
    return asking.parse_args()


def main() -> None:
    asked = options()
    torch.set_num_threads(1)
    encoder, items = encoder_for(asked), batch_for(asked, 64, home="cpu")
    gallery = gallery_for(asked, asked.candidates)
    settings: dict[str, Any] = {"gather": GATHER, "worker": True}
    sessions = {
        "rest": Session(encoder, gallery, REST(), guard=None, **settings),
        "default": Session(encoder, gallery, **settings),
    }
    kinds: dict[str, Ask] = {  # to have the answer on the CPU is to wait for the device
        "frozen": lambda query: gallery.search(encoder.encode(query), 10).to("cpu"),
    }
    for name, session in sessions.items():
        kinds[f"{name}, no updates"] = partial(answered, session, adapt=False)
        kinds[f"{name}, updates beside"] = partial(answered, session, adapt=True)
    for ask in kinds.values():  # shells made on both threads, blocks compiled, centroids known
        for _ in range(WARM_UP // GATHER):
            waits(ask, items, GATHER, 0.0)
            for session in sessions.values():
                session.wait()
    alone = statistics.median(waits(kinds["frozen"], items, WARM_UP, 0.0))
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    before = {name: len(session.history) for name, session in sessions.items()}
    for _ in range(asked.rounds):
        for name, ask in kinds.items():
            taken[name] += waits(ask, items, asked.queries, alone / LOAD)
            for session in sessions.values():
                session.wait()
    rows = Rows(asked, FLOOR, COLUMNS)
    for name in kinds:
        row: dict[str, Any] = {"kind": name, "every ms": 1000 * alone / LOAD}
        method, _, form = name.partition(", ")
        row |= compared(taken, name, f"{method}, no updates" if form else name)
        if form == "updates beside":
            row["updates"] = len(sessions[method].history) - before[method]
            row["dropped"] = sessions[method].dropped
        rows.add(row)


def answered(session: Session, query: list[Any], adapt: bool) -> object:
    """The ten best candidates of a query, on the CPU."""
    return session.answer(query, adapt=adapt).top(10)


def compared(taken: dict[str, list[float]], name: str, floor: str) -> dict[str, float]:
    """Median and tail of one kind, and beside the same session without updates."""
    found = {}
    for share in (50, 99):
        mine, other = (percentile(taken[kind], share) for kind in (name, floor))
        found |= {f"p{share} ms": 1000 * mine, f"p{share} ratio": mine / other}
    return found


if __name__ == "__main__":
    main()
