"""Vectors agree with the library's own whole-model forward, where normalisation is its business."""

import numpy as np
import pytest
import torch
import transformers as tf
from PIL import Image

import queryshift as qs

DUAL = ["CLIPModel", "AltCLIPModel", "ChineseCLIPModel", "SiglipModel", "Siglip2Model"]


def whole(folder, architecture):
    return getattr(tf, architecture).from_pretrained(folder).eval()


def read(folder, pictures, sentences, **padding):
    """What the library's own processors give, put together by hand."""
    backend = {"backend": "pil"} if tf.__version__.startswith("5") else {"use_fast": False}
    images = tf.AutoImageProcessor.from_pretrained(folder, **backend)
    tokens = tf.AutoTokenizer.from_pretrained(folder)(
        sentences, return_tensors="pt", **(padding or {"padding": True})
    )
    seen = images([Image.fromarray(picture) for picture in pictures], return_tensors="pt")
    return {**seen, "input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]}


@pytest.mark.parametrize("architecture", DUAL)
@torch.no_grad()
def test_dual_encoders(architecture, checkpoint, items):
    folder = checkpoint(architecture)
    model = qs.load(folder)
    padding = {"padding": "max_length", "max_length": 24} if "iglip" in architecture else {}
    inputs = read(folder, items["image"], items["text"], **padding)
    if "iglip" in architecture:
        del inputs["attention_mask"]
    expected = whole(folder, architecture)(**inputs)
    assert torch.allclose(model["image"].encode(items["image"]), expected.image_embeds, atol=1e-6)
    assert torch.allclose(model["text"].encode(items["text"]), expected.text_embeds, atol=1e-6)


@torch.no_grad()
def test_clap(checkpoint, items):
    folder = checkpoint("ClapModel")
    model = qs.load(folder)
    loud = [np.interp(np.arange(24_000) / 3, np.arange(8000), wave) for wave in items["audio"]]
    extractor = tf.AutoFeatureExtractor.from_pretrained(folder)
    tokens = tf.AutoTokenizer.from_pretrained(folder)(
        items["text"], padding=True, return_tensors="pt"
    )
    sounds = [Sound(wave, 48_000) for wave in loud]
    features = extractor(loud, sampling_rate=48_000, return_tensors="pt")
    expected = whole(folder, "ClapModel")(
        input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], **features
    )
    assert torch.allclose(model["audio"].encode(sounds), expected.audio_embeds, atol=1e-6)
    assert torch.allclose(model["text"].encode(items["text"]), expected.text_embeds, atol=1e-6)


class Sound:
    def __init__(self, samples, rate):
        self.samples, self.rate = samples, rate


@torch.no_grad()
def test_blip(checkpoint, items):
    folder = checkpoint("BlipForImageTextRetrieval")
    model = qs.load(folder)
    inputs = read(folder, items["image"], items["text"])
    expected = whole(folder, "BlipForImageTextRetrieval")(**inputs, use_itm_head=False).itm_score
    images, texts = (model[side].encode(items[side]) for side in ("image", "text"))
    assert torch.allclose(images @ texts.T, expected, atol=1e-6)


@torch.no_grad()
def test_blip2_scores_a_picture_by_its_best_vector(checkpoint, items):
    folder = checkpoint("Blip2ForImageTextRetrieval")
    model = qs.load(folder)
    inputs = read(folder, items["image"], items["text"])
    output = whole(folder, "Blip2ForImageTextRetrieval")(**inputs)
    images, texts = (model[side].encode(items[side]) for side in ("image", "text"))
    assert images.shape == (3, 6, 12)
    best = torch.einsum("ivd,td->ivt", images, texts).amax(1)
    assert torch.allclose(best, output.logits_per_image, atol=1e-6)


def test_blip_keeps_the_matching_path_within_reach(checkpoint):
    text = qs.load(checkpoint("BlipForImageTextRetrieval"))["text"]
    names = [name for name, _ in text.named_modules()]
    assert any("crossattention" in name for name in names)
    assert not any("crossattention" in name for name in text.norm_params())
    assert text.recommended["*"]["lr"] == 3e-5
