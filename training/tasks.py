"""The four things that are trained: scenes, the matching head above them, clips, edits."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from queryshift.lab.tangram.model import vocabulary
from queryshift.lab.tangram.towers import (
    AudioTower,
    ComposedTower,
    ImageTower,
    MatchingHead,
    TextTower,
    VideoTower,
    log_mel,
)
from training.data import clip_arrays, edit_arrays, on, scene_arrays
from training.loop import Plan, Temperature, contrast, train

HARD = 256  # a negative of the matching head is one of this many nearest, the nearer the likelier
POOL = 65_536  # among so many scenes

Data = dict[str, Tensor]


def scenes(data: Data, plan: Plan, log: Path) -> nn.ModuleDict:
    device = data["pictures"].device
    model = nn.ModuleDict({"image": ImageTower(), "text": TextTower(vocabulary())}).to(device)
    scale = Temperature().to(device)

    def loss(chance: torch.Generator) -> Tensor:
        rows = _draw(len(data["pictures"]), plan.batch, chance)
        which = _draw(data["captions"].shape[1], plan.batch, chance)
        captions = data["captions"][rows, which].long()
        return contrast(scale, model["image"](data["pictures"][rows]), model["text"](captions))

    train(nn.ModuleList([model, scale]), loss, plan, log)
    return model


def matching(model: nn.ModuleDict, data: Data, plan: Plan, log: Path) -> nn.ModuleDict:
    """Pairs that match, and the pairs nearest to matching, over the finished image tower."""
    pictures, captions = data["pictures"][:POOL], data["captions"][:POOL]
    texts, images = _nearest(model, pictures, captions[:, 0])
    head = MatchingHead(vocabulary()).to(pictures.device)
    head.load_state_dict(model["text"].state_dict(), strict=False)  # as BLIP: only crossing is new
    told = captions.shape[1]

    def loss(chance: torch.Generator) -> Tensor:
        rows, near = _draw(len(pictures), plan.batch, chance), texts.shape[1]
        rank = (near ** torch.rand(plan.batch, generator=chance, device=rows.device)).long() - 1
        with torch.no_grad():
            shown = torch.cat([rows, rows, images[rows, rank]])
            tokens = model["image"].tokens(model["image"].look(pictures[shown]))
        read = torch.cat([rows, texts[rows, rank], rows])
        read = captions[read, _draw(told, len(read), chance)].long()
        fits = torch.arange(len(read), device=read.device) < plan.batch
        return cross_entropy(head(tokens, read).float(), fits.long())

    train(head, loss, plan, log)
    return nn.ModuleDict({"head": head})


def clips(data: Data, plan: Plan, log: Path) -> nn.ModuleDict:
    device = data["frames"].device
    model = nn.ModuleDict({"video": VideoTower(), "audio": AudioTower()}).to(device)
    scale = Temperature().to(device)
    heard = torch.cat([log_mel(part.float()).half() for part in data["waveforms"].split(4096)])

    def loss(chance: torch.Generator) -> Tensor:
        rows = _draw(len(heard), plan.batch, chance)
        return contrast(
            scale, model["video"](data["frames"][rows]), model["audio"](heard[rows].float())
        )

    train(nn.ModuleList([model, scale]), loss, plan, log)
    return model


def edits(data: Data, plan: Plan, log: Path) -> nn.ModuleDict:
    device = data["targets"].device
    model = nn.ModuleDict({"image+text": ComposedTower(vocabulary()), "image": ImageTower()})
    model, scale = model.to(device), Temperature().to(device)

    def loss(chance: torch.Generator) -> Tensor:
        pairs = 2 * _draw(len(data["targets"]) // 2, plan.batch // 2, chance)
        rows = torch.cat([pairs, pairs + 1])  # both edits of one reference
        sentences = data["sentences"][rows].long()
        queries = model["image+text"](data["references"][rows], sentences)
        shown = torch.cat([data["targets"][rows], data["references"][pairs]])
        return contrast(scale, queries, model["image"](shown))

    train(nn.ModuleList([model, scale]), loss, plan, log)
    return model


def world(task: str, count: int, device: str) -> Data:
    draw = {"scenes": scene_arrays, "clips": clip_arrays, "edits": edit_arrays}[task]
    data = on(device, draw(count))
    return {
        name: _trimmed(ids) if name in ("captions", "sentences") else ids
        for name, ids in data.items()
    }


def _draw(below: int, count: int, chance: torch.Generator) -> Tensor:
    return torch.randint(below, (count,), generator=chance, device=chance.device)


def _trimmed(ids: Tensor) -> Tensor:
    """Without the columns that are padding in every row; attention likes multiples of eight."""
    longest = int((ids != 0).flatten(0, -2).sum(-1).max())
    return ids[..., : 8 * -(-longest // 8)]


@torch.no_grad()
def _nearest(model: nn.ModuleDict, pictures: Tensor, captions: Tensor) -> tuple[Tensor, Tensor]:
    """For each scene the other scenes whose captions, and whose pictures, are nearest to it."""
    seen = torch.cat([model["image"](part) for part in pictures.split(4096)])
    read = torch.cat([model["text"](part.long()) for part in captions.split(4096)])
    seen, read = normalize(seen, dim=-1), normalize(read, dim=-1)
    return _others(seen, read), _others(read, seen)


def _others(queries: Tensor, candidates: Tensor) -> Tensor:
    found = []
    for start in range(0, len(queries), 2048):
        scores = queries[start : start + 2048] @ candidates.T
        rows = torch.arange(len(scores), device=scores.device)
        scores[rows, start + rows] = -2
        found.append(scores.topk(min(HARD, len(candidates) - 1)).indices)
    return torch.cat(found)
