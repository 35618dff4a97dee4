"""Train the sounds' encoder on folds of ESC-50: `python -m training.sounds.train ESC50 [--part]`.

Sounds are drawn to MiniLM's vectors of sentences on their class, which stay as they are. Pairs of
sounds are mixed, rolled in time and cut out in time and pitch; AdamW, a cosine with a warm-up.
The same command goes on after the last finished epoch.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from queryshift.lab.datasets import DATASETS, Dataset
from queryshift.lab.datasets.esc50 import TEMPLATES
from queryshift.media.audio import waveform
from queryshift.models.cav_mae import RATE
from training.sounds.encoders import HOME, MEAN, SoundTower, energies, sentences

BATCH, EPOCHS, LR, DECAY, WARM_UP = 32, 30, 2e-3, 0.05, 2
SCALE = 20.0  # of the cosines: a temperature of 0.05
MIXED, CUT_FRAMES, CUT_BINS = 0.4, 24, 12


def augmented(held: Tensor) -> Tensor:
    """Each sound rolled in time, a stretch and a band of it silent."""
    out = torch.stack([one.roll(int(torch.randint(one.shape[0], ())), 0) for one in held])
    for one in out:
        for axis, most in ((0, CUT_FRAMES), (1, CUT_BINS)):
            width = int(torch.randint(most, ()))
            one.narrow(axis, int(torch.randint(one.shape[axis] - width, ())), width).fill_(MEAN)
    return out


def mixed(held: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Sounds (B, ...) and labels (B, C), each with some of another."""
    share = torch.distributions.Beta(MIXED, MIXED).sample((len(held),))
    share, other = torch.maximum(share, 1 - share), torch.randperm(len(held))
    kept = share[:, None, None]
    both = torch.logaddexp(held + kept.log(), held[other] + (1 - kept).clamp(min=1e-6).log())
    return both, share[:, None] * labels + (1 - share[:, None]) * labels[other]


def train(
    tower: SoundTower, held: Tensor, labels: Tensor, texts: Tensor, epochs: int, kept: Path
) -> None:
    """The whole schedule over sounds (N, 124, 64), classes (N,) and sentences (C, T, D)."""
    optimiser = torch.optim.AdamW(tower.parameters(), lr=LR, weight_decay=DECAY)
    per_epoch, begun = max(len(held) // BATCH, 1), time.perf_counter()
    right = torch.eye(len(texts))[labels]
    first = _finished(tower, optimiser, kept)
    tower.train()
    for epoch in range(first, epochs):
        total, step = 0.0, epoch * per_epoch
        for rows in torch.randperm(len(held)).split(BATCH)[:per_epoch]:
            warm = min(1.0, (step + 1) / (per_epoch * WARM_UP))
            rate = LR * warm * (0.5 + 0.5 * math.cos(math.pi * step / (epochs * per_epoch)))
            optimiser.param_groups[0]["lr"] = rate
            heard, wanted = mixed(augmented(held[rows]), right[rows])
            total += _step(tower, optimiser, heard, wanted, texts[:, step % texts.shape[1]])
            step += 1
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch + 1}: loss {total / per_epoch:.3f}, {seconds:.0f} s", flush=True)
        parts = {"tower": tower.state_dict(), "optimiser": optimiser.state_dict()}
        torch.save({**parts, "random": torch.get_rng_state(), "epochs": epoch + 1}, kept)
    tower.eval()


def _finished(tower: SoundTower, optimiser: torch.optim.Optimizer, kept: Path) -> int:
    """How many epochs a file has, once everything is as it was after them."""
    if not kept.exists():
        return 0
    stored = torch.load(kept)
    tower.load_state_dict(stored["tower"])
    optimiser.load_state_dict(stored["optimiser"])
    torch.set_rng_state(stored["random"])
    return int(stored["epochs"])


def _step(
    tower: SoundTower,
    optimiser: torch.optim.Optimizer,
    heard: Tensor,
    wanted: Tensor,
    texts: Tensor,
) -> float:
    loss = nn.functional.cross_entropy(SCALE * tower(heard) @ texts.T, wanted)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    return float(loss.detach())


def tensors(dataset: Dataset) -> tuple[Tensor, Tensor]:
    """Log energies (N, 124, 64) and the classes (N,) of all sounds."""
    held = np.stack([energies(waveform(one, RATE)) for one in dataset.queries])
    return torch.from_numpy(held), torch.tensor(
        [own[0] // len(TEMPLATES) for own in dataset.matches]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--part", choices=("train", "train-dev"), default="train")
    parser.add_argument("--out", type=Path, default=HOME)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    torch.manual_seed(0)
    dataset = DATASETS["esc50"](options.root, part=options.part)
    texts = sentences().encode(list(dataset.candidates)).unflatten(0, (-1, len(TEMPLATES)))
    tower = SoundTower()
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / f"{options.part}-epochs.pt"
    train(tower, *tensors(dataset), texts, options.epochs, kept)
    save_file(tower.state_dict(), options.out / f"{options.part}.safetensors")


if __name__ == "__main__":
    main()
