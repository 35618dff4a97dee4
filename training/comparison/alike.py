"""Small galleries of candidates that are nearly the same: does the default lose what works?

python -m training.comparison.alike FILE

Vectors vary in a few directions around one point, so that best scores lie close together although
each query finds its own candidate. Captions of the development world ask for the images nearest to
one image. Each line of FILE has recall@1 of the frozen model, of the default, and of the default
without the two rules that look at which candidates come first: `spread_kept` and `shared`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from queryshift import Encoder, Frozen, Gallery, Session, Vectors
from queryshift.lab.corruptions import corrupt, find
from queryshift.lab.datasets.tangram import tangram
from queryshift.models import load
from queryshift.retrieval.hubness.query_bank import QueryBank
from queryshift.sessions import policy

SIZES, DIRECTIONS, BATCHES = (30, 60, 200), (2, 4, 8, 16), (1, 8, 64)
NEAREST, SHIFT = (30, 60, 200), "pixelate"
DIMENSION, VARIED, NOISE = 64, 0.15, 0.006
NOISY = 4  # brightness of 256, of frames
UNCHANGED = torch.tensor(1.0)  # factor of a rule that is off
Case = tuple[dict[str, Any], Encoder, Tensor, Sequence[Any]]


def of_vectors(seed: int) -> Iterator[Case]:
    """Galleries that vary in few directions, each candidate asked for once."""
    for count in SIZES:
        for directions in DIRECTIONS:
            seeded = torch.Generator().manual_seed(seed)
            along = torch.randn(count, directions, generator=seeded) / directions**0.5
            axes = torch.randn(directions, DIMENSION, generator=seeded)
            vectors = torch.randn(DIMENSION, generator=seeded) + VARIED * along @ axes
            asked = normalize(vectors, dim=1)
            asked = normalize(asked + NOISE * torch.randn(asked.shape, generator=seeded), dim=1)
            about = {"set": "vectors", "candidates": count, "directions": directions}
            yield about, Vectors(DIMENSION), normalize(vectors, dim=1), asked


def of_world(seed: int) -> Iterator[Case]:
    """Captions for the images nearest to one image, and images for their captions."""
    model = load("tangram", device="cpu")
    world, asking = tangram("text", "dev"), model["text"]
    images = Gallery.build(model["image"], world.candidates, batch_size=500).vectors[:, 0]
    texts = torch.cat([asking.encode(world.queries[i : i + 500]) for i in range(0, 2000, 500)])
    yield of_frames(model["image"], world.candidates[seed], seed)
    worse = find("image", SHIFT)
    for count in NEAREST:
        middle = images[(seed * 97) % len(images)]
        rows = (images @ middle).topk(count).indices
        captions = [world.queries[row] for row in rows]
        about = {"set": "captions", "candidates": count}
        yield about, asking, images[rows], captions
        shown = [world.candidates[row] for row in rows]
        candidates = normalize(texts[rows], dim=1)
        yield {**about, "set": "images"}, model["image"], candidates, shown
        blurred = [corrupt(one, worse, 4, seed=seed, item_id=str(n)) for n, one in enumerate(shown)]
        yield {**about, "set": f"images, {SHIFT} 4"}, model["image"], candidates, blurred


def of_frames(encoder: Encoder, image: Any, seed: int) -> Case:
    """One image moved by up to seven pixels, as frames of a camera: each asks with some noise."""
    frames = [np.roll(image, (down, right), (0, 1)) for down in range(8) for right in range(8)][:60]
    rng = np.random.default_rng(seed)
    noise = [rng.integers(-NOISY, NOISY + 1, frame.shape) for frame in frames]
    asked = [
        (frame + more).clip(0, 255).astype(np.uint8)
        for frame, more in zip(frames, noise, strict=True)
    ]
    vectors = normalize(encoder.encode(frames), dim=1)
    return {"set": "frames", "candidates": len(frames)}, encoder, vectors, asked


def recall(session: Session, asked: Sequence[Any], size: int, order: Tensor) -> float:
    """Recall@1 in per cent of queries asked in an order; each one's own candidate is right."""
    found: list[int] = []
    for rows in order.split(size):
        queries = asked[rows] if isinstance(asked, Tensor) else [asked[row] for row in rows]
        found += session.answer(queries).top(1).positions[:, 0].tolist()
    return round(100 * float((torch.tensor(found) == order).float().mean()), 2)


def lines(seed: int) -> Iterator[dict[str, Any]]:
    """A line for each gallery and size of batches."""
    for cases in (of_vectors(seed), of_world(seed)):
        for about, encoder, vectors, asked in cases:
            gallery = Gallery(range(len(vectors)), vectors[:, None])
            order = torch.randperm(len(asked), generator=torch.Generator().manual_seed(seed))
            for size in BATCHES:
                line = {**about, "batch": size, "seed": seed}
                line["frozen"] = recall(Session(encoder, gallery, Frozen()), asked, size, order)
                line["default"] = recall(Session(encoder, gallery), asked, size, order)
                with (
                    patch.object(QueryBank, "spread_kept", UNCHANGED),
                    patch.object(policy, "shared", lambda *_: UNCHANGED),
                ):
                    session = Session(encoder, gallery)
                    line["unchecked"] = recall(session, asked, size, order)
                yield line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    options = parser.parse_args()
    torch.set_num_threads(1)
    with options.file.open("w") as file:
        for seed in options.seeds:
            for line in lines(seed):
                file.write(json.dumps(line) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
