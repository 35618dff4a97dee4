"""What adaptation costs, as ratios to plain forwards of the same code in the same run.

    python bench/adapt.py [--device cpu|cuda] [--tower tangram|vit|blip|blip-text] [--batch 64]
                          [--side 224] [--precision auto|float32|bfloat16] [--compile] [--graphs]
                          [--chunk 8] [--guard] [--attention cudnn] [--profile rest]

"forward" is a plain forward of the batch, measured in turns with the row. "rest of it" is the share
of a batch that is neither a forward nor a product: search, refinement, losses, update and report.
"MiB" is the height of memory beyond weights and gallery; with --graphs, all that recordings of this
row and those before it hold and the allocator keeps. "against plain" is how much longer the
same method takes as a plain loop in the same precision (`plain.py`), which is never compiled nor
chunked. With --chunk every forward runs twice, which the floor does not count. "to rest" is the
time in batches of bare REST. "updates" are those of one batch: 0 where it taught nothing. "waits"
is how often a batch waits for the GPU.

"default" is a session for which no method is named; "hubs" the frozen model with hub correction.
--profile prints torch's own table of one warm batch in the place of rows; --attention has torch
compute attention in one way only, or fail.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from measuring import Call, clock, held, peak, profile, taken, timed, waits, warm
from plain import LOOPS, loop
from rows import Rows, parser
from torch.nn.attention import SDPBackend, sdpa_kernel
from towers import add_options, batch_for, encoder_for, gallery_for, half, twin_for

from queryshift import (
    EATA,
    READ,
    REST,
    TCR,
    TSA,
    Encoder,
    Frozen,
    Gallery,
    Guard,
    Hubs,
    Method,
    Session,
    Tent,
)
from queryshift.encoders.prepared import move
from queryshift.retrieval import forward
from queryshift.retrieval.forward import Batch

FLOOR = (
    "three steps are three forwards and three products back through frozen layers, each about one "
    "forward: six. Decoupling adds a source forward a batch and a product a step: ten. The default "
    "has its source forward, three steps of a third of the batch and the answer's forward: four."
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

SESSIONS: dict[str, tuple[dict[str, Any], int]] = {
    "default": ({}, 4),
    "hubs": ({"method": Frozen(), "hubs": Hubs(), "guard": None}, 1),
}
"""What people run, with its floor: the settings of a session, all others as they are."""

ATTENTION = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}

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
    "to rest": ".2f",
    "updates": "",
    "waits": "",
}

RUNNING: tuple[tuple[Any, str], ...] = (
    (Batch, "_run"),
    (forward, "_products"),
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


def answered_in_doubt(session: Session, items: list[Any]) -> object:
    """A batch through a session whose latest queries knew nothing, so that it learns."""
    session.restore(replace(session.state, chances=torch.ones_like(session.state.chances)))
    return session.answer(items).top(10)


def sessions(
    asked: argparse.Namespace, encoder: Encoder, gallery: Gallery
) -> Iterator[tuple[str, Session, int]]:
    """Those that were asked for: name of the row, session, floor in forwards."""
    for name in asked.methods:
        if name in SESSIONS:
            settings, floor = SESSIONS[name]
            yield name, Session(encoder, gallery, chunk=asked.chunk, **settings), floor
            continue
        method, floor = METHODS[name]
        for guard in (None, Guard()) if asked.guard else (None,):
            shown = name if guard is None else f"{name}, guarded"
            yield shown, Session(encoder, gallery, method, chunk=asked.chunk, guard=guard), floor


def updates(session: Session, batch: Call) -> int:
    """How many updates a session makes in one batch."""
    before = session.state.adapted.updates
    batch()
    made: int = session.state.adapted.updates - before
    return made


def options() -> argparse.Namespace:
    asking = parser(__doc__, rounds=5)
    add_options(asking)
    asking.add_argument("--batch", type=int, default=64)
    asking.add_argument("--candidates", type=int, default=25_000)
    asking.add_argument("--chunk", type=int)
    asking.add_argument("--guard", action="store_true", help="each method again, guarded")
    names = [*METHODS, *SESSIONS]
    asking.add_argument("--methods", nargs="*", default=names, choices=names)
    asking.add_argument("--attention", choices=ATTENTION, help="one kind of attention kernels only")
    asking.add_argument("--profile", choices=names, help="one batch of this, by torch's profiler")
    return asking.parse_args()


def profiled(asked: argparse.Namespace, encoder: Encoder, gallery: Gallery, items: Any) -> None:
    """Print where the time of one warm batch goes."""
    asked.methods = [asked.profile]
    for name, session, _ in sessions(asked, encoder, gallery):
        batch = partial(answered_in_doubt, session, items)
        warm(batch, asked.device)
        print(f"{name}: {1000 * timed(batch, asked.device):.1f} ms without the profiler")
        print(profile(batch, asked.device))


def plain_loops(
    asked: argparse.Namespace, encoder: Encoder, gallery: Gallery, items: Any, forward: Call
) -> Iterator[dict[str, Any]]:
    """A row for each method that is written as a plain loop too."""
    twin = twin_for(asked)
    for name in LOOPS:
        if name in asked.methods:
            peer = loop(name, twin, encoder, gallery, half(asked))
            batch = partial(answered_plainly, peer, encoder, items)
            yield {"method": name, **measured(forward, batch, METHODS[name][1], asked)}


def measure(asked: argparse.Namespace) -> None:
    """The table, or the profile."""
    encoder, items = encoder_for(asked), batch_for(asked, asked.batch)
    gallery = gallery_for(asked, asked.candidates)
    if asked.profile:
        profiled(asked, encoder, gallery, items)
        return
    ready, source = encoder.ready(items), encoder.norm_params()
    forward = torch.no_grad()(lambda: encoder.through(source, ready))
    warm(forward, asked.device)
    rows, plain, rest = Rows(asked, FLOOR, COLUMNS), {}, None
    for found in plain_loops(asked, encoder, gallery, items, forward):
        plain[found["method"]] = found["ms"]
        rows.add({**found, "method": f"{found['method']}, plain loop"})
    before = held() if asked.graphs else 0
    for name, session, floor in sessions(asked, encoder, gallery):
        batch = partial(answered_in_doubt, session, items)
        found = measured(forward, batch, floor, asked)
        rest = found["ms"] if name == "rest" else rest
        found["to rest"] = found["ms"] / rest if rest else None
        found["against plain"] = plain[name] / found["ms"] if name in plain else None
        found["updates"] = updates(session, batch)
        if asked.device == "cuda":
            found["waits"] = waits(batch)
        if asked.graphs:
            found["MiB"] = taken(batch, before)
        rows.add({"method": name, **found})
        if name.endswith(", guarded"):
            again = items[: len(items) // 2]
            batch = partial(answered_in_doubt, session, again * 2)
            found = measured(forward, batch, floor, asked)
            rows.add({"method": name.replace("guarded", "half are copies"), **found})


def main() -> None:
    asked = options()
    torch.set_num_threads(1)
    with sdpa_kernel(ATTENTION[asked.attention]) if asked.attention else nullcontext():
        measure(asked)


if __name__ == "__main__":
    main()
