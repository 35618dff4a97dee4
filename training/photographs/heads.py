"""A dual encoder of photographs and captions that a CPU can train: two heads on frozen networks.

python -m training.photographs.heads SMALL [--out runs/photographs]

EfficientNet-Lite2 sees a picture, MiniLM reads a caption, and a head on each makes vectors that
can be compared. Only the heads are trained, on Flickr8k's clean training part; which epoch is kept
is chosen on the validation part. Use: `--model photographs=training.photographs.heads:make`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, normalize

import queryshift as qs
from queryshift.lab.datasets import DATASETS
from training.photographs.classes import FEATURES, FOLDER, HOME, Shown, network, trained
from training.photographs.contrast import contrast
from training.sounds.encoders import sentences

MODEL = "heads.safetensors"
READ, HIDDEN, DIMENSION = 384, 1024, 384
BATCH, CAPTIONS, EPOCHS, RATE, DECAY, DROPPED = 1000, 2, 40, 1e-3, 0.2, 0.4
LARGEST_SCALE, TEMPERATURE = 60.0, 0.06  # training ended at 1 / 16
AT_ONCE = 64
RECOMMENDED = {"*": {"temperature": TEMPERATURE}}  # and no learning rate


class Head(nn.Module):
    """Features (B, F) to unit vectors (B, 384): a linear layer and beside it a hidden one.

    The norm in front has no parameters, so that only the norms of the network below adapt.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.straight = nn.Linear(width, DIMENSION)
        self.up, self.down = nn.Linear(width, HIDDEN), nn.Linear(HIDDEN, DIMENSION)
        self.drop = nn.Dropout(DROPPED)

    def forward(self, features: Tensor) -> Tensor:
        own = self.drop(layer_norm(features, features.shape[-1:]))
        return normalize(self.straight(own) + self.down(self.drop(gelu(self.up(own)))), dim=-1)


class Pictures(Shown):
    """Pictures, squeezed to a square of 160 pixels: half the work of 224."""

    recommended = RECOMMENDED
    side = 160

    def __init__(self, net: nn.Module, head: nn.Module) -> None:
        super().__init__(net.to(memory_format=torch.channels_last), head)  # twice as fast


class Captions(qs.Encoder):
    """Captions, through MiniLM and a head."""

    recommended = RECOMMENDED
    dimension = DIMENSION

    def __init__(self, own: qs.Encoder, head: Head) -> None:
        super().__init__()
        self.own, self.head = own, head

    def prepare(self, items: Sequence[str]) -> Any:
        return self.own.prepare(items)

    def forward(self, prepared: Any) -> Tensor:
        return torch.as_tensor(self.head(self.own(prepared)))


class Features(NamedTuple):
    """What the frozen networks make of a part: pictures (V, N, 1280), captions (N, 5, 384)."""

    seen: Tensor  # V: as they are, and mirrored
    read: Tensor


class Heads(nn.Module):
    """The two heads and the scale of their cosines."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = Head(FEATURES), Head(READ)
        self.scale = nn.Parameter(torch.tensor(2.7))

    def loss(self, seen: Tensor, read: Tensor) -> Tensor:
        """Contrast of pictures (B, F) with each of their captions (B, C, F)."""
        scale = self.scale.exp().clamp(max=LARGEST_SCALE)
        return contrast(self.image(seen), self.text(read).transpose(0, 1), scale)

    @torch.no_grad()
    def recall(self, part: Features) -> float:
        """Mean recall@1 of both directions in percent."""
        self.eval()
        seen, read = self.image(part.seen[0]), self.text(part.read)
        scores = seen @ read.flatten(0, 1).T  # (N, 5 N)
        each = read.shape[1]
        own = torch.arange(len(seen))
        found = scores.argmax(1) // each == own
        told = scores.argmax(0) == own.repeat_interleave(each)
        return 50 * float(found.float().mean() + told.float().mean())


def trained_heads(train: Features, val: Features, epochs: int) -> tuple[Heads, float]:
    """The heads of the epoch that is best on the validation part, and their recall there."""
    heads = Heads()
    best, kept = -1.0, heads
    optimiser = torch.optim.AdamW(heads.parameters(), lr=RATE, weight_decay=DECAY)
    steps = epochs * max(len(train.read) // BATCH, 1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, steps, pct_start=0.1)
    for epoch in range(epochs):
        heads.train()
        total = [_step(heads, optimiser, schedule, *some) for some in _batches(train)]
        recall = heads.recall(val)
        print(f"epoch {epoch + 1}: loss {np.mean(total):.3f}, recall@1 {recall:.1f}", flush=True)
        if recall > best:
            best, kept = recall, deepcopy(heads)
    return kept.eval(), best


def _batches(part: Features) -> Iterator[tuple[Tensor, Tensor]]:
    """Pictures, half of them mirrored, with two of their captions, in a random order."""
    count = len(part.read)
    for rows in torch.randperm(count).split(BATCH)[: max(count // BATCH, 1)]:
        some = torch.randperm(part.read.shape[1])[:CAPTIONS]
        yield part.seen[torch.randint(len(part.seen), rows.shape), rows], part.read[rows][:, some]


def _step(
    heads: Heads,
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    seen: Tensor,
    read: Tensor,
) -> float:
    loss = heads.loss(seen, read)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    schedule.step()
    return float(loss.detach())


@torch.no_grad()
def features(root: Path, part: str, mirrored: bool) -> Features:
    """The features of a part's pictures and captions."""
    dataset = DATASETS["flickr8k"](root, query="image", part=part)
    pictures, own = Pictures(network(trained()), nn.Identity()).eval(), sentences()
    seen = []
    for at in range(0, len(dataset), AT_ONCE):
        prepared = pictures.prepare(dataset.queries[at : at + AT_ONCE])
        ways = (prepared, prepared.flip(3)) if mirrored else (prepared,)
        seen.append(torch.stack([pictures.features(way) for way in ways]))
    texts = [dataset.candidates[place] for right in dataset.matches for place in right]
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    read = torch.empty(len(texts), READ)
    for at in range(0, len(texts), AT_ONCE):
        rows = order[at : at + AT_ONCE]
        read[rows] = own.encode([texts[row] for row in rows]).float()
    return Features(torch.cat(seen, 1), read.unflatten(0, (len(dataset), -1)))


def kept(path: Path, root: Path, part: str, mirrored: bool = False) -> Features:
    """The features of a part, from a file if it is there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(features(root, part, mirrored)._asdict(), path)
    return Features(**load_file(path))


def make() -> dict[str, qs.Encoder]:
    """Both encoders, from the folder of QUERYSHIFT_PHOTOGRAPHS, or runs/photographs."""
    heads = Heads()
    heads.load_state_dict(load_file(Path(os.environ.get(FOLDER, HOME)) / MODEL))
    pictures = Pictures(network(trained()), heads.image)
    return {"image": pictures.eval(), "text": Captions(sentences(), heads.text).eval()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("small", type=Path)
    parser.add_argument("--out", type=Path, default=HOME)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    torch.manual_seed(0)
    val = kept(options.out / "features-val.safetensors", options.small, "val")
    train = kept(options.out / "features-train.safetensors", options.small, "train", True)
    heads, recall = trained_heads(train, val, options.epochs)
    save_file(heads.state_dict(), options.out / MODEL)
    print(f"validation recall@1 {recall:.1f}: {options.out / MODEL}")


if __name__ == "__main__":
    main()
