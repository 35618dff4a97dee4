"""Recall at 1 of the stored weights on a world, through the library's own encoders."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from queryshift import Encoder, Frozen, Gallery, Session, load, tangram
from queryshift.models import matcher
from queryshift.tangram.captions import COUNT

BATCH, RERANKED = 250, 512


def encode(encoder: Encoder, items: Sequence[Any]) -> Tensor:
    parts = [items[start : start + BATCH] for start in range(0, len(items), BATCH)]
    return torch.cat([encoder.encode(part) for part in parts])


def percent(right: Tensor) -> float:
    return round(100 * float(right.float().mean()), 2)


def recall(queries: Tensor, candidates: Tensor, own: Tensor, owner: Tensor) -> float:
    """Percent of queries whose nearest candidate is owned by what they show."""
    return percent(owner[(queries @ candidates.T).argmax(1)] == own)


def scenes(count: int, split: str) -> dict[str, float]:
    model, shown = load("tangram"), tangram.scenes(split, count)
    images = [scene.image() for scene in shown]
    texts = [caption for scene in shown for caption in tangram.captions(scene)]
    owner = torch.arange(len(texts)) // COUNT
    seen, read = encode(model["image"], images), encode(model["text"], texts)
    found = {
        "image->text": recall(seen, read, torch.arange(count), owner),
        "text->image": recall(read, seen, owner, torch.arange(count)),
    }
    few, ids = slice(0, RERANKED), torch.arange(count)
    found |= {
        f"image->text, {RERANKED} queries": recall(seen[few], read, ids[few], owner),
        "the same reranked": reranked("image", images[few], texts, ids[few], owner),
        f"text->image, {RERANKED} queries": recall(read[::COUNT][few], seen, ids[few], ids),
        "the same, reranked": reranked("text", texts[::COUNT][few], images, ids[few], ids),
    }
    return found


def reranked(query: str, items: Sequence, candidates: Sequence, own: Tensor, owner: Tensor):
    """Recall at 1 when the matching head ranks the cosine's best again."""
    model = load("tangram")
    gallery = Gallery.build(model["text" if query == "image" else "image"], candidates)
    judge = matcher(model, query).over(candidates)
    session = Session(model[query], gallery, Frozen(), matcher=judge)
    parts = [session.answer(items[i : i + 64]).top(1) for i in range(0, len(items), 64)]
    best = torch.cat([torch.as_tensor(part.positions) for part in parts])[:, 0]
    return percent(owner[best] == own)


def clips(count: int, split: str) -> dict[str, float]:
    model, shown = load("tangram-clips"), tangram.clips(split, count)
    seen = encode(model["video"], [clip.frames() for clip in shown])
    heard = encode(model["audio"], [clip.waveform() for clip in shown])
    ids = torch.arange(count)
    return {
        "video->audio": recall(seen, heard, ids, ids),
        "audio->video": recall(heard, seen, ids, ids),
    }


def edits(count: int, split: str) -> dict[str, float]:
    model, asked = load("tangram-edits"), tangram.edits(split, count)
    shown = tangram.candidates(asked)
    queries = encode(model["image+text"], [edit.query() for edit in asked])
    images = encode(model["image"], [scene.image() for scene in shown])
    ids = torch.arange(len(shown))  # the targets come first, in the order of the queries
    return {f"image+text->image of {len(shown)}": recall(queries, images, ids[:count], ids)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=["scenes", "clips", "edits"])
    parser.add_argument("--split", default="test", choices=tangram.SPLITS)
    parser.add_argument("--count", type=int, default=2000)
    options = parser.parse_args()
    table = {"scenes": scenes, "clips": clips, "edits": edits}
    for task in options.tasks:
        print(task, json.dumps(table[task](options.count, options.split), indent=1), flush=True)
