"""What adaptation costs, as ratios to plain forwards of the same code in the same run.

    python bench/adapt.py [--device cpu|cuda] [--tower tangram|vit|blip|blip-text] [--batch 64]
                          [--side 224] [--precision auto|float32|bfloat16] [--compile] [--graphs]
                          [--chunk 8] [--guard]

"forward" is a plain forward of the batch, measured in turns with the row. "rest of it" is the share
of a batch that is neither a forward nor a product: search, refinement, losses, update and report.
"MiB" is the height of memory beyond weights and gallery; with --graphs, all that recordings of this
row and those before it hold and the allocator keeps. "against plain" is how much longer the
same method takes as a plain loop in the same precision (`plain.py`), which is never compiled nor
chunked. With --chunk every forward runs twice, which the floor does not count.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

import torch
from measuring import Call, clock, held, peak, taken, timed, warm
from plain import LOOPS, loop
from rows import Rows, parser
from towers import add_options, batch_for, encoder_for, gallery_for, half, twin_for

from queryshift import EATA, READ, REST, TCR, TSA, Encoder, Frozen, Guard, Method, Session, Tent
from queryshift.encoders.prepared import move
from queryshift.retrieval import derivatives
from queryshift.retrieval.batch import Batch

FLOOR = (
    "three steps are three forwards and three products back through frozen layers, each about one "
    "forward: six. Decoupling adds a source forward a batch and a product a step: ten."
)
METHODS: dict[str, tuple[Method, int]] = {
    "frozen": (Frozen(), 1),
    "tent": (Tent(), 6),
    "eata": (EATA(redundancy=2), 6),  # the same batch again is not to be skipped as familiar
    "read": (READ(), 6),
    "tsa": (TSA(), 3),
    "tcr": (TCR(), 6),
    "rest": (REST(), 6),
    "rest+decoupled": (REST(decouple=True), 10),
}
"""A method, and its floor in forwards."""

COLUMNS = {
    "method": "",
    "ms": ".1f",
    "forward ms": ".1f",
    "forwards": ".2f",
    "floor": "",
    "over floor": ".2f",
    "MiB": ".0f",
    "rest of it": ".1%",
    "against plain": ".2f",
}

RUNNING: tuple[tuple[Any, str], ...] = (
    (Batch, "_run"),
    (derivatives, "_product"),
)


class Inside:
    """Time spent in forwards and products, by wrapping the functions that run them."""

    def __init__(self, device: str) -> None:
        self.device, self.spent = device, 0.0

    def share_outside(self, call: Call) -> float | None:
        """The part of a call's time that is in neither; unknown for code that is not ours."""
        self.spent = 0.0
        with ExitStack() as wrapped:
            for owner, name in RUNNING:
                function = self._timed(getattr(owner, name))
                wrapped.enter_context(patch.object(owner, name, function))
            took = timed(call, self.device)
        return 1 - self.spent / took if self.spent else None

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            started = clock(self.device)
            try:
                return function(*args)
            finally:
                self.spent += clock(self.device) - started

        return timed


def in_turns(first: Call, second: Call, rounds: int, device: str) -> tuple[float, float]:
    """The quickest of each."""
    turns = [(timed(first, device), timed(second, device)) for _ in range(rounds)]
    return min(one for one, _ in turns), min(other for _, other in turns)


def measured(forward: Call, batch: Call, floor: int, asked: argparse.Namespace) -> dict[str, Any]:
    """A row of the table, but for its name and, where forwards are recorded, its memory."""
    warm(batch, asked.device)
    plain, took = in_turns(forward, batch, asked.rounds, asked.device)
    return {
        "ms": 1000 * took,
        "forward ms": 1000 * plain,
        "forwards": took / plain,
        "floor": floor,
        "over floor": took / plain / floor,
        "MiB": peak(batch, asked.device),
        "rest of it": Inside(asked.device).share_outside(batch),
    }


def answered_plainly(peer: Any, encoder: Encoder, items: list[Any]) -> object:
    """A batch through a plain loop, which embeds its own patches."""
    return peer.answer(move(encoder.prepare(items), encoder.device))


def answered_as_new(session: Session, items: list[Any]) -> object:
    """A batch through a session whose guard has not met these queries before."""
    session.restore(replace(session.state, recent=session.state.recent[:0]))
    return session.answer(items).top(10)


def options() -> argparse.Namespace:
    asking = parser(__doc__, rounds=5)
    add_options(asking)
    asking.add_argument("--batch", type=int, default=64)
    asking.add_argument("--candidates", type=int, default=25_000)
    asking.add_argument("--chunk", type=int)
    asking.add_argument("--guard", action="store_true", help="each method again, guarded")
    asking.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    return asking.parse_args()


def main() -> None:
    asked = options()
    torch.set_num_threads(1)
    encoder, items = encoder_for(asked), batch_for(asked, asked.batch)
    gallery = gallery_for(asked, asked.candidates)
    ready, source = encoder.ready(items), encoder.norm_params()
    forward = torch.no_grad()(lambda: encoder.through(source, ready))
    warm(forward, asked.device)
    rows, plain = Rows(asked, FLOOR, COLUMNS), {}
    twin = twin_for(asked)
    for name in LOOPS:
        if name in asked.methods:
            peer = loop(name, twin, encoder, gallery, half(asked))
            batch = partial(answered_plainly, peer, encoder, items)
            found = measured(forward, batch, METHODS[name][1], asked)
            plain[name] = found["ms"]
            rows.add({"method": f"{name}, plain loop", **found})
    before = held() if asked.graphs else 0
    for name, guard in product(asked.methods, (None, Guard()) if asked.guard else (None,)):
        method, floor = METHODS[name]
        session = Session(encoder, gallery, method, chunk=asked.chunk, guard=guard)
        batch = partial(answered_as_new, session, items)
        found = measured(forward, batch, floor, asked)
        if asked.graphs:
            found["MiB"] = taken(batch, before)
        against = plain[name] / found["ms"] if name in plain else None
        shown = name if guard is None else f"{name}, guarded"
        rows.add({"method": shown, **found, "against plain": against})
        if guard is not None:
            again = items[: len(items) // 2]
            batch = partial(answered_as_new, session, again * 2)
            found = measured(forward, batch, floor, asked)
            rows.add({"method": f"{name}, half are copies", **found})


if __name__ == "__main__":
    main()
