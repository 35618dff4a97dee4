"""Real-size configurations, on the meta device, have the published numbers of parameters."""

from importlib import import_module

import pytest
import torch
import transformers as tf

from queryshift.models import ARCHITECTURES

LARGE = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
}
CONFIGS = {
    "CLIP B/16": ("CLIPModel", {"vision_config": {"patch_size": 16}}),
    "CLIP L/14": (
        "CLIPModel",
        {
            "text_config": {
                "hidden_size": 768,
                "intermediate_size": 3072,
                "num_attention_heads": 12,
            },
            "vision_config": {**LARGE, "patch_size": 14},
            "projection_dim": 768,
        },
    ),
    "SigLIP B/16": ("SiglipModel", {}),
    "BLIP base": ("BlipForImageTextRetrieval", {"vision_config": {"image_size": 384}}),
    "BLIP large": (
        "BlipForImageTextRetrieval",
        {
            "vision_config": {**LARGE, "image_size": 384},
            "text_config": {"encoder_hidden_size": 1024},
        },
    ),
    "BLIP-2 ViT-g": (
        "Blip2ForImageTextRetrieval",
        {"qformer_config": {"vocab_size": 30523, "use_qformer_text_input": True}},
    ),
}
# name: all parameters; norm layers and parameters that adapt in the image, then the text encoder
PUBLISHED = {
    "CLIP B/16": (149_620_737, (26, 39_936), (25, 25_600)),
    "CLIP L/14": (427_616_513, (50, 102_400), (25, 38_400)),
    "SigLIP B/16": (203_155_970, (26, 39_936), (25, 38_400)),
    "BLIP base": (223_744_258, (25, 38_400), (25, 38_400)),
    "BLIP large": (446_128_642, (49, 100_352), (25, 38_400)),
    "BLIP-2 ViT-g": (1_172_032_258, (31, 47_616), (25, 38_400)),
}


class OnMeta:
    """A checkpoint without weights or processors."""

    published = False

    def __init__(self, architecture, options):
        self.architecture = architecture
        cls = getattr(tf, architecture)
        with torch.device("meta"):
            self.model = cls(cls.config_class(**options)).eval()

    def image_reader(self, square=None): ...
    def words(self, **options): ...
    def refuse_published(self): ...


def count(tensors) -> int:
    return sum(tensor.numel() for tensor in tensors)


@pytest.mark.parametrize("name", CONFIGS)
def test_published_numbers_of_parameters(name):
    checkpoint = OnMeta(*CONFIGS[name])
    module = import_module(f"queryshift.models.{ARCHITECTURES[checkpoint.architecture]}")
    model = module.load(checkpoint)
    whole, *sides = PUBLISHED[name]
    assert count(checkpoint.model.parameters()) == whole
    for modality, expected in zip(("image", "text"), sides, strict=True):
        encoder = model[modality]
        params = encoder.norm_params()
        assert (len({key.rpartition(".")[0] for key in params}), count(params.values())) == expected
        assert len(encoder.blocks) in (12, 24)
