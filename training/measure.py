"""Recall at 1 of stored weights on a world, through the library's own encoders."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from queryshift import Encoder, Frozen, Gallery, Session, load
from queryshift.lab import tangram
from queryshift.lab.tangram.scene_captions import COUNT
from queryshift.models import matcher
from training.stored import use

BATCH, RERANKED = 250, 512
LOOKS = {"crayon": tangram.crayon_scenes, "products": tangram.product_scenes}

Found = dict[str, float]


def encode(encoder: Encoder, items: Sequence[Any]) -> Tensor:
    parts = [items[start : start + BATCH] for start in range(0, len(items), BATCH)]
    return torch.cat([encoder.encode(part) for part in parts])


def percent(right: Tensor) -> float:
    return round(100 * float(right.float().mean()), 2)


def recall(queries: Tensor, candidates: Tensor, own: Tensor, owner: Tensor) -> float:
    """Percent of queries whose nearest candidate is owned by what they show."""
    return percent(owner[(queries @ candidates.T).argmax(1)] == own)


def scenes(count: int, split: str) -> Found:
    model, shown = load("tangram"), tangram.scenes(split, count)
    images, texts = _both_sides(shown)
    owner = torch.arange(len(texts)) // COUNT
    seen, read = encode(model["image"], images), encode(model["text"], texts)
    few, ids = slice(0, RERANKED), torch.arange(count)
    return {
        "image->text": recall(seen, read, ids, owner),
        "text->image": recall(read, seen, owner, ids),
        f"image->text, {RERANKED} queries": recall(seen[few], read, ids[few], owner),
        "image->text, the same reranked": reranked("image", images[few], texts, ids[few], owner),
        f"text->image, {RERANKED} queries": recall(read[::COUNT][few], seen, ids[few], ids),
        "text->image, the same reranked": reranked("text", texts[::COUNT][few], images, ids, ids),
    }


def looks(count: int, split: str) -> Found:
    """Queries and candidates both in a look that the model never saw."""
    model, ids, found = load("tangram"), torch.arange(count), {}
    for name, draw in LOOKS.items():
        images, texts = _both_sides(draw(count, split=split))
        owner = torch.arange(len(texts)) // COUNT
        seen, read = encode(model["image"], images), encode(model["text"], texts)
        found[f"{name}, image->text"] = recall(seen, read, ids, owner)
        found[f"{name}, text->image"] = recall(read, seen, owner, ids)
    return found


def _both_sides(shown: Sequence[tangram.Scene]) -> tuple[list[Any], list[str]]:
    """The pictures, and all captions in the order of the pictures."""
    images = [scene.image() for scene in shown]
    return images, [caption for scene in shown for caption in tangram.captions(scene)]


def reranked(
    query: str, items: Sequence[Any], candidates: Sequence[Any], own: Tensor, owner: Tensor
) -> float:
    """Recall at 1 when the matching head ranks the cosine's best again."""
    model = load("tangram")
    gallery = Gallery.build(model["text" if query == "image" else "image"], candidates)
    judge = matcher(model, query).over(candidates)
    session = Session(model[query], gallery, Frozen(), matcher=judge)
    parts = [session.answer(items[i : i + 64]).top(1) for i in range(0, len(items), 64)]
    best = torch.cat([torch.as_tensor(part.positions) for part in parts])[:, 0]
    return percent(owner[best] == own[: len(items)])


def clips(count: int, split: str) -> Found:
    model, shown = load("tangram-clips"), tangram.clips(split, count)
    seen = encode(model["video"], [clip.frames() for clip in shown])
    heard = encode(model["audio"], [clip.waveform() for clip in shown])
    ids = torch.arange(count)
    return {
        "video->audio": recall(seen, heard, ids, ids),
        "audio->video": recall(heard, seen, ids, ids),
    }


def edits(count: int, split: str) -> Found:
    model, asked = load("tangram-edits"), tangram.edits(split, count)
    shown = tangram.candidates(asked)
    queries = encode(model["image+text"], [edit.query() for edit in asked])
    images = encode(model["image"], [scene.image() for scene in shown])
    place = {scene.content(): row for row, scene in enumerate(shown)}
    own = torch.tensor([place[edit.target.content()] for edit in asked])
    reference = torch.tensor([place[edit.reference.content()] for edit in asked])
    scores, rows = queries @ images.T, torch.arange(count)
    first = scores.argmax(1)
    sibling = own[(rows ^ 1).clamp(max=count - 1)]
    missed = first != own
    scores[rows, reference] = -2
    return {
        "image+text->image": percent(first == own),
        "the same, each query's reference left out": percent(scores.argmax(1) == own),
        "queries that miss": int(missed.sum()),
        "of them find their reference": int((first == reference).sum()),
        "of them find their target's sibling": int((missed & (first == sibling)).sum()),
    }


TABLE = {"scenes": scenes, "looks": looks, "clips": clips, "edits": edits}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(TABLE), choices=list(TABLE))
    parser.add_argument("--split", default="test", choices=tangram.SPLITS)
    parser.add_argument("--count", type=int, default=2000, help="queries of each task")
    parser.add_argument("--weights", type=Path, help="folder of others than the bundled ones")
    options = parser.parse_args()
    if options.weights:
        use(options.weights)
    for task in options.tasks:
        print(task, json.dumps(TABLE[task](options.count, options.split), indent=1), flush=True)
