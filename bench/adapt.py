"""What adaptation costs, as ratios to plain forwards of the same code in the same run.

    python bench/adapt.py [--device cpu|cuda] [--tower tangram|vit] [--batch 64] [--rounds 5]
                          [--side 224] [--precision float32|bfloat16] [--compile] [--chunk 8]

The floor of three steps is six forwards: each step runs one forward, and a product back through
frozen layers costs about one forward (no weight gradients). Decoupling adds one source forward per
batch and one product per step: ten. "rest of it" is the share of a batch that is neither a forward
nor a product: search, refinement, losses, update and report. "MiB" is the height of memory.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from towers import TOWERS, clock, peak, random_gallery, timed, tower

from queryshift import EATA, READ, REST, TCR, TSA, Encoder, Frozen, Method, Session, Tent, retrieval
from queryshift.encoder import is_norm
from queryshift.models.blocks import BlockEncoder

METHODS: dict[str, tuple[Method, int]] = {
    "frozen": (Frozen(), 1),
    "tent": (Tent(), 6),
    "eata": (EATA(), 6),
    "read": (READ(), 6),
    "tsa": (TSA(), 3),
    "tcr": (TCR(), 6),
    "rest": (REST(), 6),
    "rest+decoupled": (REST(decouple=True), 10),
}


class Inside:
    """Time spent in forwards and products, by wrapping the two functions that run them."""

    def __init__(self, device: str) -> None:
        self.device, self.spent = device, 0.0
        retrieval.Batch._forward = self._timed(retrieval.Batch._forward)
        retrieval._product = self._timed(retrieval._product)

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            started = clock(self.device)
            try:
                return function(*args)
            finally:
                self.spent += clock(self.device) - started

        return timed

    def share_outside(self, call: Callable[[], object]) -> str:
        """The part of a call's time that is in neither; unknown for code that is not ours."""
        self.spent = 0.0
        took = timed(call, self.device)
        return f"{1 - self.spent / took:.1%}" if self.spent else "-"


def plain_tent(encoder: Encoder, items: list[object], gallery: Tensor) -> Callable[[], object]:
    """Tent as most would write it: a copied model, its own norm weights, torch's AdamW."""
    model = copy.deepcopy(encoder).eval().requires_grad_(False)
    norms = [part for part in model.modules() if is_norm(part)]
    weights = [weight.requires_grad_() for part in norms for weight in part.parameters()]
    optimiser = torch.optim.AdamW(weights, lr=3e-4, weight_decay=1e-4)

    def batch() -> Tensor:
        prepared = encoder.ready(items)
        for _ in range(3):
            scores = model(prepared).float() @ gallery.T
            loss = torch.distributions.Categorical(logits=scores / 0.01).entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return scores.topk(10).indices.cpu()

    return batch


class Table:
    """Rows of times beside a plain forward's, which is measured anew for each row."""

    def __init__(self, forward: Callable[[], object], rounds: int, device: str) -> None:
        self.forward, self.rounds, self.device = forward, rounds, device
        self.inside = Inside(device)
        heads = ("ms", "forward", "forwards", "floor", "over floor", "MiB", "rest of it")
        print(" " * 17 + "".join(f"{head:>11}" for head in heads))

    def add(self, name: str, batch: Callable[[], object], floor: int) -> None:
        """One row; turns of a plain forward and of the batch follow each other."""
        batch()  # away from the source, shells made
        turns = [
            (timed(self.forward, self.device), timed(batch, self.device))
            for _ in range(self.rounds)
        ]
        plain, took = (min(times) for times in zip(*turns, strict=True))
        high, outside = peak(batch, self.device), self.inside.share_outside(batch)
        print(
            f"{name:<17}{1000 * took:>11.1f}{1000 * plain:>11.1f}{took / plain:>11.2f}{floor:>11}"
            f"{took / plain / floor:>11.2f}{high:>11.0f}{outside:>11}",
            flush=True,
        )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tower", default="tangram", choices=TOWERS)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--candidates", type=int, default=25_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--chunk", type=int)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    return parser.parse_args()


def main() -> None:
    asked = options()
    torch.set_num_threads(1)
    encoder, items = tower(asked.tower, asked.batch, asked.device, asked.side)
    if isinstance(encoder, BlockEncoder):
        encoder.compiled = asked.compile
        encoder.autocast = torch.bfloat16 if asked.precision == "bfloat16" else None
    gallery = random_gallery(asked.tower, asked.candidates, asked.device)
    ready, source = encoder.ready(items), encoder.norm_params()
    print(", ".join(f"{name} {value}" for name, value in vars(asked).items() if name != "methods"))
    forward = torch.no_grad()(lambda: encoder.through(source, ready))
    forward()
    table = Table(forward, asked.rounds, asked.device)
    if "tent" in asked.methods:
        table.add("tent, plain loop", plain_tent(encoder, items, gallery.vectors[:, 0]), 6)
    for name in asked.methods:
        method, floor = METHODS[name]
        session = Session(encoder, gallery, method, chunk=asked.chunk)
        table.add(name, lambda s=session: s.answer(items).top(10), floor)


if __name__ == "__main__":
    main()
