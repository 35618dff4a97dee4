"""Many sessions on one encoder: memory of each, and one mixed forward against one forward each.

    python bench/sessions.py [--device cpu|cuda] [--tower tangram|vit] [--counts 1 10 100 1000]

Every session has adapted once and asks one query. Times are milliseconds per query: CPU time of
one thread, on a GPU the clock. Memory is counted twice: the tensors a session holds (parameters,
moments, the same for undo, the source values, the method's memory), and what the process grew by.
"""

from __future__ import annotations

import argparse
import gc
import os
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType

import torch
from measuring import seconds
from rows import Rows, parser
from torch import Tensor, nn
from towers import add_options, batch_for, encoder_for, gallery_for

from queryshift import REST, Encoder, Gallery, Session, answer_many

FLOOR = "a plain forward of the same rows through one set of parameters"
CANDIDATES = 1000
COLUMNS = {
    "sessions": ",",
    "KiB adapt": ".0f",
    "KiB each": ".0f",
    "KiB grown": ".0f",
    "one each": ".2f",
    "together": ".2f",
    "floor": ".2f",
    "gain": ".2f",
    "over floor": ".2f",
}
Batches = list[list[object]]


def in_use(device: str) -> int:
    """Bytes of memory this process holds, on a GPU those of its tensors."""
    if device == "cuda":
        gc.collect()
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated()
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
        session = Session(encoder, gallery, REST(), steps=1, guard=None)
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


def options() -> argparse.Namespace:
    asking = parser(__doc__, rounds=3)
    add_options(asking)
    asking.add_argument("--counts", type=int, nargs="*", default=[1, 10, 100, 1000])
    return asking.parse_args()


def main() -> None:
    asked = options()
    torch.set_num_threads(1)
    encoder, items = encoder_for(asked), batch_for(asked, 64)
    gallery = gallery_for(asked, CANDIDATES)
    rows = Rows(asked, FLOOR, COLUMNS)
    adapted(encoder, gallery, items, 2)  # shells made
    own = sum(value.nbytes for value in encoder.norm_params().values())
    for count in asked.counts:
        before = in_use(asked.device)
        sessions = adapted(encoder, gallery, items, count)
        grown = in_use(asked.device) - before
        batches: Batches = [[items[number % len(items)]] for number in range(count)]
        each, mixed, floor = (
            1000 / count * seconds(partial(run, sessions, batches), asked.rounds, asked.device)
            for run in (in_a_row, together, plainly)
        )
        rows.add(
            {
                "sessions": count,
                "KiB adapt": own / 1024,
                "KiB each": held(sessions) / count / 1024,
                "KiB grown": grown / count / 1024,
                "one each": each,
                "together": mixed,
                "floor": floor,
                "gain": each / mixed,
                "over floor": mixed / floor,
            }
        )


if __name__ == "__main__":
    main()
