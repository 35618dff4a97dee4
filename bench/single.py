"""What a single query waits, at a tenth of full load, while the session adapts or does not.

    python bench/single.py [--device cpu|cuda] [--tower tangram|vit] [--queries 320] [--rounds 3]

One thread of torch answers and, with `worker=True`, one adapts beside it, so that two cores are
used. The floor is the frozen model's own time: one forward and one search, without any session.
Rounds of all kinds take turns in one process; the time is from the moment a query is taken to its
ten best candidates, by the clock on the wall.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from towers import TOWERS, random_gallery, tower

from queryshift import REST, Session

LOAD = 0.1
GATHER = 16
Ask = Callable[[list[object]], object]


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tower", default="tangram", choices=TOWERS)
    parser.add_argument("--candidates", type=int, default=25_000)
    parser.add_argument("--queries", type=int, default=320)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    encoder, items = tower(options.tower, 64, options.device)
    gallery = random_gallery(options.tower, options.candidates, options.device)
    in_turn = Session(encoder, gallery, REST(), gather=GATHER)
    worker = Session(encoder, gallery, REST(), gather=GATHER, worker=True)
    kinds: dict[str, Ask] = {
        "frozen": lambda query: gallery.search(encoder.encode(query), 10).to("cpu"),
        "in turn": lambda query: in_turn.answer(query).top(10),
        "worker": lambda query: worker.answer(query).top(10),
    }
    for ask in kinds.values():  # shells made on both threads, centroids known
        waits(ask, items, 2 * GATHER, 0.0)
    alone = statistics.median(waits(kinds["frozen"], items, 2 * GATHER, 0.0))
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(options.rounds):
        for name, ask in kinds.items():
            worker.wait()
            taken[name] += waits(ask, items, options.queries, alone / LOAD)
    print(f"{options.tower} tower on {options.device}, {options.candidates:,} candidates")
    print(f"one query every {1000 * alone / LOAD:.0f} ms, REST, groups of {GATHER}\n")
    report(taken)
    print(f"\nworker: {len(worker.history)} updates, {worker.dropped} groups dropped")


def report(taken: dict[str, list[float]]) -> None:
    floor = [percentile(taken["frozen"], share) for share in (50, 99)]
    heads = ("p50 ms", "p99 ms", "p50 ratio", "p99 ratio")
    print(" " * 9 + "".join(f"{head:>11}" for head in heads))
    for name, times in taken.items():
        both = [percentile(times, share) for share in (50, 99)]
        ratios = [mine / least for mine, least in zip(both, floor, strict=True)]
        cells = (1000 * both[0], 1000 * both[1], *ratios)
        print(f"{name:<9}" + "".join(f"{cell:>11.2f}" for cell in cells))


if __name__ == "__main__":
    main()
