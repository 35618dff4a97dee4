"""Recall at 1 of the stored weights on a world, through the library's own encoders."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from queryshift import tangram
from queryshift.encoder import Encoder
from queryshift.models import tangram as models

BATCH = 250


def encode(encoder: Encoder, items: Sequence[Any]) -> Tensor:
    parts = [items[start : start + BATCH] for start in range(0, len(items), BATCH)]
    return torch.cat([encoder.encode(part) for part in parts])


def recall(queries: Tensor, candidates: Tensor, right: Tensor) -> float:
    """Percent of queries whose nearest candidate is theirs; `right` is each candidate's query."""
    best = (queries @ candidates.T).argmax(1)
    return round(100 * float((right[best] == torch.arange(len(queries))).float().mean()), 2)


def scenes(count: int, split: str) -> dict[str, float]:
    model, shown = models.scenes(), tangram.scenes(split, count)
    told = [tangram.captions(scene) for scene in shown]
    images = encode(model["image"], [scene.image() for scene in shown])
    texts = encode(model["text"], [caption for captions in told for caption in captions])
    owner = torch.arange(count).repeat_interleave(len(told[0]))
    found = (texts @ images.T).argmax(1)
    return {
        "image->text": recall(images, texts, owner),
        "text->image": round(100 * float((found == owner).float().mean()), 2),
        **_reranked(images, texts, owner, shown, told),
    }


@torch.no_grad()
def _reranked(images: Tensor, texts: Tensor, owner: Tensor, shown, told, keep: int = 16):
    """What the matching head makes of the cosine's nearest sixteen, for some of the queries."""
    model, head = models.scenes(), models.matching_head()
    pixels = model["image"].prepare([scene.image() for scene in shown])
    tokens = torch.cat([model["image"].tower.tokens(part) for part in pixels.split(BATCH)])
    ids = models.text_ids([caption for captions in told for caption in captions])

    def verdicts(pictures: Tensor, sentences: Tensor) -> Tensor:
        pairs = zip(pictures.split(500), sentences.split(500), strict=True)
        return torch.cat([head(tokens[seen], ids[read]).diff()[:, 0] for seen, read in pairs])

    count = min(500, len(images))
    near = (images[:count] @ texts.T).topk(keep).indices
    seen = torch.arange(count).repeat_interleave(keep)
    best = verdicts(seen, near.flatten()).view(count, keep).argmax(1, keepdim=True)
    right = owner[near.gather(1, best)[:, 0]] == torch.arange(count)
    plain = owner[near[:, 0]] == torch.arange(count)
    some = torch.arange(0, len(texts), len(texts) // count)[:count]
    near = (texts[some] @ images.T).topk(keep).indices
    best = verdicts(near.flatten(), some.repeat_interleave(keep)).view(count, keep).argmax(1, True)
    hits = near.gather(1, best)[:, 0] == owner[some]
    return {
        f"first {count} image->text": round(100 * float(plain.float().mean()), 2),
        f"first {count} image->text, reranked": round(100 * float(right.float().mean()), 2),
        f"every {len(texts) // count}th text->image": round(
            100 * float((near[:, 0] == owner[some]).float().mean()), 2
        ),
        f"every {len(texts) // count}th text->image, reranked": round(
            100 * float(hits.float().mean()), 2
        ),
    }


def clips(count: int, split: str) -> dict[str, float]:
    model, shown = models.clips(), tangram.clips(split, count)
    seen = encode(model["video"], [clip.frames() for clip in shown])
    heard = encode(model["audio"], [clip.waveform() for clip in shown])
    owner = torch.arange(count)
    return {"video->audio": recall(seen, heard, owner), "audio->video": recall(heard, seen, owner)}


def edits(count: int, split: str) -> dict[str, float]:
    model, asked = models.edits(), tangram.edits(split, count)
    shown = tangram.candidates(asked)
    queries = encode(model["image+text"], [edit.query() for edit in asked])
    images = encode(model["image"], [scene.image() for scene in shown])
    owner = torch.arange(len(shown))  # the targets come first, in the order of the queries
    return {f"image+text->image of {len(shown)}": recall(queries, images, owner)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=["scenes", "clips", "edits"])
    parser.add_argument("--split", default="test", choices=tangram.SPLITS)
    parser.add_argument("--count", type=int, default=2000)
    options = parser.parse_args()
    table = {"scenes": scenes, "clips": clips, "edits": edits}
    for task in options.tasks:
        print(task, json.dumps(table[task](options.count, options.split), indent=1), flush=True)
