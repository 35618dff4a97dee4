"""The paper's table of costs in one run: methods, image and text queries, two sizes of gallery.

    python bench/cost.py [--device cpu|cuda] [--precision auto|float32|bfloat16] [--compile]
                         [--rounds 5] [--candidates 5000 32528] [--methods tent rest]

BLIP's towers (ViT-B/16 at 384 px; BERT-base, 35 tokens) with random weights, batches of 64 that lie
on the device: no reading of pictures, which the paper's seconds hold. So what compares is the
ratio to Tent. The paper's galleries are COCO's (5,000 pictures) and Fashion-Gen's (32,528), where
its queries have a shift each and REST decouples. "MiB" is beyond weights and gallery.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from adapt import FLOOR, METHODS, measured
from measuring import warm
from rows import Rows, parser
from towers import add_options, batch_for, encoder_for, gallery_for

from queryshift import Session
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.paper import table

NAMED = ("tent", "eata", "read", "tsa", "rest", "rest+decoupled", "frozen")
TOWERS = {"image": "blip", "text": "blip-text"}
SERIES = {5_000: "general2coco", 32_528: "fashion-gen"}
COLUMNS = {
    "method": "",
    "queries": "",
    "candidates": ",",
    "ms": ".1f",
    "s per 1,000": ".3f",
    "to Tent": ".2f",
    "to forward": ".2f",
    "MiB": ".0f",
    "paper s": ".0f",
    "paper to Tent": ".2f",
}


def published(query: str, candidates: int) -> dict[str, float]:
    """The paper's seconds of each method, by our names."""
    if candidates not in SERIES:
        return {}
    benchmark = BENCHMARKS[f"{SERIES[candidates]}-{query}"]
    seconds = table("seconds")
    column = [one.benchmark for one in seconds.columns].index(benchmark.name)
    found = {row.method: row.values[column] for row in seconds.rows}
    rest = found.pop("rest")
    return {**found, "rest+decoupled" if benchmark.diverse else "rest": rest}


def costs(asked: argparse.Namespace, query: str) -> Iterator[dict[str, Any]]:
    """A row for each gallery and method."""
    asked.tower = TOWERS[query]
    encoder, items = encoder_for(asked), batch_for(asked, asked.batch)
    ready, source = encoder.ready(items), encoder.norm_params()
    forward = torch.no_grad()(lambda: encoder.through(source, ready))
    warm(forward, asked.device)
    for candidates in asked.candidates:
        gallery, paper, tent = gallery_for(asked, candidates), published(query, candidates), None
        for name in asked.methods:
            method, floor = METHODS[name]
            session = Session(encoder, gallery, method, guard=None)
            batch = partial(lambda session: session.answer(items).top(10), session)
            found = measured(forward, batch, floor, asked)
            tent = found["ms"] if name == "tent" else tent
            yield {
                **found,
                "method": name,
                "queries": query,
                "candidates": candidates,
                "s per 1,000": found["ms"] / asked.batch,
                "to Tent": found["ms"] / tent if tent else None,
                "to forward": found["forwards"],
                "paper s": paper.get(name),
                "paper to Tent": paper[name] / paper["tent"] if name in paper else None,
            }


def main() -> None:
    asking = parser(__doc__, rounds=5)
    add_options(asking, tower=None, side=384)
    asking.add_argument("--batch", type=int, default=64)
    asking.add_argument("--candidates", type=int, nargs="*", default=list(SERIES))
    asking.add_argument("--methods", nargs="*", default=list(NAMED), choices=NAMED)
    asked = asking.parse_args()
    torch.set_num_threads(1)
    rows = Rows(asked, FLOOR, COLUMNS)
    for query in TOWERS:
        for row in costs(asked, query):
            rows.add(row)


if __name__ == "__main__":
    main()
