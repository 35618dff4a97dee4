"""Many sessions on one encoder: memory of each, and one mixed forward against one forward each.

    python bench/sessions.py [--device cpu|cuda] [--tower tangram|vit] [--counts 1 10 100 1000]

Every session has adapted once and asks one query. The floor is a plain forward of the same rows
through one set of parameters. Milliseconds per query: CPU time of one thread (on a GPU, the clock).
Memory is counted twice: the tensors a session holds (parameters, moments, the same for undo, the
source values, the method's memory), and what the process grew by.
"""

from __future__ import annotations

import argparse
import gc
import os
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType

import torch
from torch import Tensor, nn
from towers import TOWERS, random_gallery, seconds, tower

from queryshift import REST, Encoder, Gallery, Session, answer_many

CANDIDATES = 1000
Batches = list[list[object]]


def resident() -> int:
    """Bytes of memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def held(sessions: list[Session]) -> int:
    """Bytes of all tensors that can be reached from sessions, but not of encoder and gallery."""
    found: dict[int, int] = {}
    seen, waiting = set(), list(sessions)
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(
            one, type | ModuleType | FunctionType | nn.Module | Gallery
        ):
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            found[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
        else:
            waiting += gc.get_referents(one)
    return sum(found.values())


def adapted(encoder: Encoder, gallery: Gallery, items: list[object], count: int) -> list[Session]:
    """Sessions that have gone different ways."""
    found = []
    for number in range(count):
        session = Session(encoder, gallery, REST(), steps=1)
        session.answer([items[number % len(items)], items[(7 * number + 3) % len(items)]])
        found.append(session)
    return found


@torch.no_grad()
def in_a_row(sessions: list[Session], batches: Batches) -> None:
    """One forward per session, and nothing else but the search."""
    encoder = sessions[0].encoder
    for session, batch in zip(sessions, batches, strict=True):
        session.gallery.search(encoder.through(session.params, encoder.ready(batch)), 10)


def together(sessions: list[Session], batches: Batches) -> None:
    """One forward for all."""
    for found in answer_many(sessions, batches):
        found.top(10)


@torch.no_grad()
def plainly(sessions: list[Session], batches: Batches) -> None:
    """All rows through one session's parameters."""
    encoder = sessions[0].encoder
    shared = encoder.ready([query for batch in batches for query in batch])
    for vector in encoder.through(sessions[0].params, shared):
        sessions[0].gallery.search(vector[None], 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tower", default="tangram", choices=TOWERS)
    parser.add_argument("--counts", type=int, nargs="*", default=[1, 10, 100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    encoder, items = tower(options.tower, 64, options.device)
    gallery = random_gallery(options.tower, CANDIDATES, options.device)
    adapted(encoder, gallery, items, 2)  # shells made
    own = sum(value.nbytes for value in encoder.norm_params().values())
    print(f"{options.tower} tower on {options.device}: {own / 1024:.0f} KiB adapt")
    heads = ("sessions", "KiB each", "grown", "one each", "together", "floor", "gain", "over floor")
    print("".join(f"{head:>11}" for head in heads))
    for count in options.counts:
        before = resident()
        sessions = adapted(encoder, gallery, items, count)
        grown = resident() - before
        batches: Batches = [[items[number % len(items)]] for number in range(count)]
        each, mixed, floor = (
            1000 / count * seconds(partial(run, sessions, batches), options.rounds, options.device)
            for run in (in_a_row, together, plainly)
        )
        memory = "".join(f"{size / count / 1024:>11.0f}" for size in (held(sessions), grown))
        times = "".join(
            f"{one:>11.2f}" for one in (each, mixed, floor, each / mixed, mixed / floor)
        )
        print(f"{count:>11,}{memory}{times}", flush=True)


if __name__ == "__main__":
    main()
