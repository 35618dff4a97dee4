"""Train the dual encoder on Flickr8k's clean training pictures, about 100 seconds on an H200.

python -m training.photographs.train SMALL [--out runs/photographs] [--device cuda]

SMALL is what `training.photographs.shrink` made. Published settings: contrast in both directions
over batches of 300 pictures with two of their captions each, label smoothing 0.05, AdamW (decay
0.05), 36 epochs of a cosine with a warm-up, crops and flips of pictures, one word in ten masked.
"""

from __future__ import annotations

import argparse
import math
import shutil
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import affine_grid, grid_sample

from queryshift.lab.datasets import DATASETS, Dataset
from queryshift.models.image_preprocessing import squeezed
from training.photographs import quantised_weights, start
from training.photographs.contrast import contrast
from training.photographs.encoders import HOME, VOCABULARY, WEIGHTS, ids_of, tokenizer
from training.photographs.towers import SIDE

BATCH, CAPTIONS, EPOCHS, WARM_UP = 300, 2, 36, 1.5
DECAY, LARGEST_SCALE, CLIPPED = 0.05, 60.0, 1.0
MASKED, MASK, FIRST_WORD = 0.1, 103, 999  # share of words, and BERT's ids
SMALLEST_CROP, STRETCH = 0.65, (0.88, 1.13)
RATES = {"net": 3e-4, "reading": 1e-4, "new": 6e-4, "scale": 1e-3}


class Both(nn.Module):
    """The two towers and the scale of their cosines."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = start.pictures(), start.captions()
        self.scale = nn.Parameter(torch.tensor(2.7))

    def groups(self) -> list[dict[str, object]]:
        """Parameters with their rates: pre-trained ones slower than new ones."""
        own: dict[str, list[nn.Parameter]] = {name: [] for name in RATES}
        for name, parameter in self.named_parameters():
            own[_kind(name)].append(parameter)
        return [
            {"params": [p for p in some if p.requires_grad], "lr": RATES[kind], "most": RATES[kind]}
            for kind, some in own.items()
        ]

    def loss(self, pixels: Tensor, ids: Tensor) -> Tensor:
        """Contrast of pictures (B, ...) with each of their captions (C, B, L), both ways."""
        with torch.autocast(pixels.device.type, torch.bfloat16):
            seen, read = self.image(pixels), self.text(ids.flatten(0, 1))
        scale = self.scale.exp().clamp(max=LARGEST_SCALE)
        return contrast(seen.float(), read.float().unflatten(0, ids.shape[:2]), scale)


def _kind(name: str) -> str:
    if name == "scale":
        return "scale"
    if name.startswith("image.net."):
        return "net"
    return "reading" if name.startswith("text.") and ".head." not in name else "new"


def augmented(pixels: Tensor) -> Tensor:
    """Random crops, stretched a little and half of them mirrored, as floats."""
    count, device = len(pixels), pixels.device

    def drawn(low: float, high: float) -> Tensor:
        return torch.empty(count, device=device).uniform_(low, high)

    size, ratio = drawn(SMALLEST_CROP, 1.0), drawn(*STRETCH)
    mirrored = torch.where(drawn(0, 1) < 0.5, 1.0, -1.0)
    maps = torch.zeros(count, 2, 3, device=device)
    maps[:, 0, 0], maps[:, 1, 1] = size * mirrored * ratio.clamp(max=1), size / ratio.clamp(min=1)
    maps[:, 0, 2], maps[:, 1, 2] = drawn(-1, 1) * (1 - size), drawn(-1, 1) * (1 - size)
    grid = affine_grid(maps, [count, 3, SIDE, SIDE], align_corners=False)
    return grid_sample(pixels.float(), grid, padding_mode="reflection", align_corners=False)


def masked(ids: Tensor) -> Tensor:
    """Ids with one word in ten unknown."""
    hidden = (torch.rand(ids.shape, device=ids.device) < MASKED) & (ids > FIRST_WORD)
    return torch.where(hidden, MASK, ids)


def train(model: Both, pixels: Tensor, ids: Tensor, epochs: int) -> None:
    """The whole schedule over pictures (N, 3, 224, 224) and captions (N, 5, 40)."""
    optimiser = torch.optim.AdamW(model.groups(), weight_decay=DECAY)
    per_epoch, step = max(len(pixels) // BATCH, 1), 0
    begun = time.perf_counter()
    model.train()
    for epoch in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(pixels), device=pixels.device).split(BATCH)[:per_epoch]:
            done = step / (epochs * per_epoch)
            warm = min(1.0, (step + 1) / (per_epoch * WARM_UP))
            for group in optimiser.param_groups:
                group["lr"] = group["most"] * warm * (0.5 + 0.5 * math.cos(math.pi * done))
            total += _step(model, optimiser, augmented(pixels[rows]), _some_captions(ids[rows]))
            step += 1
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch + 1}: loss {total / per_epoch:.3f}, {seconds:.0f} s", flush=True)
    model.eval()


def _step(model: Both, optimiser: torch.optim.Optimizer, pixels: Tensor, ids: Tensor) -> float:
    loss = model.loss(pixels, ids)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), CLIPPED)
    optimiser.step()
    return float(loss.detach())


def _some_captions(ids: Tensor) -> Tensor:
    """Two of the five captions of each picture, masked, (2, B, L)."""
    which = torch.rand(ids.shape[:2], device=ids.device).argsort(1)[:, :CAPTIONS]
    chosen = ids[torch.arange(len(ids), device=ids.device)[:, None], which]
    return masked(chosen.transpose(0, 1))


def tensors(dataset: Dataset, vocabulary: Path) -> tuple[Tensor, Tensor]:
    """Pictures (N, 3, 224, 224) as bytes, and the ids (N, 5, 40) of their captions."""
    shown = np.stack([np.asarray(squeezed(picture, SIDE)) for picture in dataset.queries])
    made = tokenizer(vocabulary)
    own = [ids_of(made, [dataset.candidates[c] for c in right]) for right in dataset.matches]
    return torch.from_numpy(shown).permute(0, 3, 1, 2), torch.stack(own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("small", type=Path)
    parser.add_argument("--out", type=Path, default=HOME)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    vocabulary = shutil.copyfile(start.minilm() / VOCABULARY, options.out / VOCABULARY)
    pixels, ids = tensors(DATASETS["flickr8k"](options.small, part="train"), Path(vocabulary))
    model = Both().to(options.device)
    train(model, pixels.to(options.device), ids.to(options.device), options.epochs)
    kept = {name: value for name, value in model.state_dict().items() if name != "scale"}
    quantised_weights.write(options.out / WEIGHTS, kept)
    temperature = float((-model.scale.detach()).exp())
    print(f"temperature {temperature:.3f}; weights in {options.out / WEIGHTS}")


if __name__ == "__main__":
    main()
