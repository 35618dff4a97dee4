"""How far bare methods move, where they go well and where they collapse: the guard's limits.

python -m training.comparison.guard_limits docs/results/guard-limits.jsonl
With docs/research/guard-limits.md as second argument it writes the table into that page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from queryshift import Session
from queryshift.methods.decoupled import drift
from queryshift.methods.specs import Spec
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.refinement import refined
from queryshift.sessions.policy import gained

from .hostile import stream_of, world_of
from .hostile_streams import BATCH, Asked, World

METHODS = ("rest", "tcr", "shot", "sar", "tent", "tent:lr=3e-3,temperature=0.01")
CHOSEN = ("clean", "unanswerable", "diverse", "garbage", "repeated")
BATCHES = 20
START, END = "<!-- limits -->\n", "\n<!-- end of limits -->"


@torch.no_grad()
def moves(world: World, session: Session, batch: Sequence[Asked]) -> dict[str, float]:
    """Answer a batch: how many are right, and how far the answers are from the source's."""
    answer = session.answer([one.picture for one in batch])
    now = Forward(answer.vectors, world.gallery)
    source = Forward(world.encoder.encode([one.picture for one in batch]), world.gallery)
    first, before = (one.hits(1).positions[:, 0] for one in (now, source))
    pairs = [(one.scene, place // 5) for one, place in zip(batch, first.tolist(), strict=True)]
    right = [scene == found for scene, found in pairs if scene is not None]
    return {
        "right": sum(right) / max(1, len(right)),
        "share": float(gained(first, before)),
        "drift": float(drift(source, refined(now, neighbours=10, temperature=0.02))),
    }


def line(world: World, stream: str, method: str) -> dict[str, Any]:
    """One bare method on one stream: the mean over batches and the largest."""
    session = Session(world.encoder, world.gallery, Spec.read(method).make(), guard=None)
    asked = stream_of(stream, world, BATCHES)
    batches = [asked[start : start + BATCH] for start in range(0, BATCH * BATCHES, BATCH)]
    found = [moves(world, session, batch) for batch in batches]
    measured = {name: [one[name] for one in found] for name in ("share", "drift")}
    late = mean(one["right"] for one in found[-5:])
    return {
        "stream": stream,
        "method": method,
        "late recall": round(100 * late, 1),
        **{name: round(mean(values), 3) for name, values in measured.items()},
        **{f"largest {name}": round(max(values), 3) for name, values in measured.items()},
    }


def table(path: Path) -> str:
    """A row for each line."""
    rows = [
        "| stream | method | recall in the last five batches | share | largest | drift | largest |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for one in map(json.loads, path.read_text().splitlines()):
        share, most = one["share"], one["largest share"]
        cells = (one["stream"], one["method"], f"{one['late recall']:.1f}", f"{share:.2f}")
        more = (f"{most:.2f}", f"{one['drift']:.2f}", f"{one['largest drift']:.2f}")
        rows.append("| " + " | ".join((*cells, *more)) + " |")
    return "\n".join(rows)


def main(path: Path, page: Path | None = None) -> None:
    if page is not None:
        before, rest = page.read_text().split(START)
        page.write_text(before + START + table(path) + END + rest.split(END)[1])
        return
    world = world_of("dev", 0, "cuda" if torch.cuda.device_count() else "cpu")
    with path.open("w") as file:
        for stream, method in product(CHOSEN, METHODS):
            file.write(json.dumps(line(world, stream, method)) + "\n")
            file.flush()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
