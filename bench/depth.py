"""How many hits to correct on an engine: recall of the default by depth, beside the whole gallery.

    python bench/depth.py [--captions 12000] [--queries 3072] [--depths 50 100 150 200 300]

Tangram's images, corrupted, look for their captions among others, in batches of 64, as vectors:
hub correction is all that the default does. The floor is a gallery in memory, where every candidate
is corrected; a depth searches a flat FAISS index exactly. "loss" is in points of recall at 10, with
the standard error of the paired differences.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from engine_list import engine_named
from rows import Rows, parser
from torch import Tensor

import queryshift as qs
from queryshift.lab import tangram
from queryshift.lab.corruptions import corrupt, find

SHIFTS = {"gaussian_noise": 2, "motion_blur": 3, "fog": 1}
BATCH, K = 64, 10
FLOOR = "the same session over all candidates in memory"
COLUMNS = {
    "shift": "",
    "depth": "",
    "recall@1": ".2f",
    "recall@10": ".2f",
    "loss@1": ".2f",
    "loss@10": ".2f",
    "error@10": ".2f",
}


def main() -> None:
    asking = parser(__doc__, rounds=1)
    asking.add_argument("--captions", type=int, default=12_000)
    asking.add_argument("--queries", type=int, default=3072)
    asking.add_argument("--depths", type=int, nargs="*", default=[50, 100, 150, 200, 300])
    asked = asking.parse_args()
    torch.set_num_threads(1)
    model, rows = qs.load("tangram"), Rows(asked, FLOOR, COLUMNS)
    scenes = list(tangram.scenes("train", asked.captions))
    captions = [tangram.captions(scene)[0] for scene in scenes]
    vectors = encoded(model["text"], captions)
    images = [scene.image() for scene in scenes[: asked.queries]]
    with TemporaryDirectory() as folder, engine_named("faiss flat", Path(folder), 1) as flat:
        memory = qs.Gallery.from_vectors(None, vectors)
        engine = flat.make(memory.ids, vectors.numpy())
        for shift, severity in SHIFTS.items():
            noisy = [
                corrupt(image, find("image", shift), severity, seed=0, item_id=str(row))
                for row, image in enumerate(images)
            ]
            queries = encoded(model["image"], noisy)
            for row in measured(queries, memory, engine, asked):
                rows.add({"shift": shift, **row})


def measured(
    queries: Tensor, memory: qs.Gallery, engine: qs.Searchable, asked: argparse.Namespace
) -> Iterator[dict]:
    """A row for all candidates, and for each depth."""
    encoder = qs.Vectors(queries.shape[1])
    frozen = places(qs.Session(encoder, memory, qs.Frozen()), queries)
    yield {"depth": "frozen", **recalls(frozen)}
    whole = places(qs.Session(encoder, memory), queries)
    yield {"depth": "all", **recalls(whole)}
    for depth in asked.depths:
        session = qs.Session(encoder, engine, hubs=qs.Hubs(depth=depth), depth=depth)
        found = places(session, queries)
        pairs = list(zip(whole, found, strict=True))
        lost = [100.0 * ((one < K) - (other < K)) for one, other in pairs]
        first = [100.0 * ((one < 1) - (other < 1)) for one, other in pairs]
        yield {
            "depth": str(depth),
            **recalls(found),
            "loss@1": statistics.mean(first),
            "loss@10": statistics.mean(lost),
            "error@10": statistics.stdev(lost) / len(lost) ** 0.5,
        }


def places(session: qs.Session, queries: Tensor) -> list[int]:
    """Where each query's own caption is among the best ten; 10: nowhere."""
    found = []
    for start in range(0, len(queries), BATCH):
        hits = session.answer(list(queries[start : start + BATCH])).top(K).ids
        for row, ids in enumerate(hits, start):
            found.append(ids.index(row) if row in ids else K)
    return found


def recalls(found: list[int]) -> dict[str, float]:
    """Per cent of the queries."""
    return {
        f"recall@{best}": 100 * statistics.mean(place < best for place in found) for best in (1, K)
    }


def encoded(encoder: qs.Encoder, items: list) -> Tensor:
    parts = (items[at : at + 256] for at in range(0, len(items), 256))
    return torch.cat([encoder.encode(part) for part in parts])


if __name__ == "__main__":
    main()
