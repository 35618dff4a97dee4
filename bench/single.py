"""What a single query waits, at a tenth of full load, while the session adapts or does not.

    python bench/single.py [--device cpu|cuda] [--tower tangram|vit] [--queries 320] [--rounds 3]

One thread of torch answers and, with `worker=True`, one adapts beside it, so that two cores are
used. The floor is the frozen model's own time. Rounds of all kinds take turns in one process; the
time is from the moment a query is taken to its ten best candidates, by the clock on the wall.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from towers import TOWERS, random_gallery, tower

from queryshift import REST, Frozen, Gallery, Session

LOAD = 0.1
GATHER = 16


def sessions(encoder: object, gallery: Gallery) -> dict[str, Session]:
    return {
        "frozen": Session(encoder, gallery, Frozen()),
        "in turn": Session(encoder, gallery, REST(), gather=GATHER),
        "worker": Session(encoder, gallery, REST(), gather=GATHER, worker=True),
    }


def waits(session: Session, items: list[object], queries: int, every: float) -> list[float]:
    """Seconds that each query waits, when one comes every so many seconds."""
    found, due = [], time.perf_counter()
    for number in range(queries):
        time.sleep(max(0.0, due - time.perf_counter()))
        started = time.perf_counter()
        session.answer([items[number % len(items)]]).top(10)
        found.append(time.perf_counter() - started)
        due = max(due + every, time.perf_counter())
    session.wait()
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
    kinds = sessions(encoder, gallery)
    for session in kinds.values():  # shells made on both threads, centroids known
        waits(session, items, 2 * GATHER, 0.0)
    alone = statistics.median(waits(kinds["frozen"], items, 2 * GATHER, 0.0))
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(options.rounds):
        for name, session in kinds.items():
            taken[name] += waits(session, items, options.queries, alone / LOAD)
    print(f"{options.tower} tower on {options.device}, {options.candidates:,} candidates")
    print(f"one query every {1000 * alone / LOAD:.0f} ms, REST, groups of {GATHER}\n")
    report(taken, kinds)


def report(taken: dict[str, list[float]], kinds: dict[str, Session]) -> None:
    floor = [percentile(taken["frozen"], share) for share in (50, 99)]
    heads = ("p50 ms", "p99 ms", "p50 ratio", "p99 ratio", "updates", "dropped")
    print(" " * 9 + "".join(f"{head:>11}" for head in heads))
    for name, times in taken.items():
        both = [percentile(times, share) for share in (50, 99)]
        ratios = [mine / least for mine, least in zip(both, floor, strict=True)]
        updates = sum(one.adapted for one in kinds[name].history)
        print(
            f"{name:<9}{1000 * both[0]:>11.1f}{1000 * both[1]:>11.1f}{ratios[0]:>11.2f}"
            f"{ratios[1]:>11.2f}{updates:>11}{kinds[name].dropped:>11}"
        )


if __name__ == "__main__":
    main()
