from pathlib import Path

import numpy as np
import original_checkpoints
import pytest
import torch
from original_checkpoints import BLIP_ROWS, SIDES, WORDS, damaged
from reference_blip import Reference
from transformers import BlipImageProcessorPil

from queryshift.encoders.adapted_parameters import is_norm
from queryshift.errors import BadFile, BadInput
from queryshift.models import blip, blip_original
from queryshift.models.blip_original import FORMAT, build
from queryshift.models.checkpoints import Checkpoint

SIDE = SIDES["blip"]
TEXTS = ["A dog runs.", "red grass", "a red dog on a red grass"]


@pytest.fixture(scope="module", params=[True, False], ids=["pretrained", "fine-tuned"])
def written(request, tmp_path_factory):
    return original_checkpoints.blip(tmp_path_factory.mktemp("blip"), request.param)


@pytest.fixture(scope="module")
def reference(written):
    return written[0]


@pytest.fixture(scope="module")
def path(written):
    return written[1]


@pytest.fixture(scope="module")
def model(path):
    return blip_original.load(path)


@pytest.fixture
def pictures():
    return list(np.random.default_rng(3).integers(0, 256, (3, 50, 70, 3), dtype=np.uint8))


def test_recognises_its_own_files_only(path, tmp_path):
    torch.save({"model": {"visual_encoder.pos_embed": torch.zeros(1)}}, tmp_path / "other.pth")
    assert blip_original.FORMAT.recognises(path)
    assert not blip_original.FORMAT.recognises(tmp_path / "other.pth")


@torch.no_grad()
def test_image_vectors_are_the_reference_s(model, reference, pictures):
    pixels = model["image"].prepare(pictures)["pixel_values"]
    assert pixels.shape == (3, 3, SIDE, SIDE)
    assert torch.allclose(model["image"].encode(pictures), reference.image(pixels), atol=1e-5)


@torch.no_grad()
def test_text_vectors_are_the_reference_s(model, reference):
    tokens = model["text"].prepare(TEXTS)
    expected = reference.text(tokens["input_ids"], tokens["attention_mask"])
    assert torch.allclose(model["text"].encode(TEXTS), expected, atol=1e-5)


@torch.no_grad()
def test_the_matching_head_is_the_reference_s(path, model, reference, pictures):
    pixels = model["image"].prepare(pictures)["pixel_values"]
    tokens = model["text"].prepare(TEXTS)
    expected = reference.matching(pixels, **tokens_of(tokens))
    found = build(FORMAT.open(path))(pixel_values=pixels, **tokens, use_itm_head=True)
    assert torch.allclose(found.itm_score, expected, atol=1e-5)


def tokens_of(tokens):
    return {"ids": tokens["input_ids"], "mask": tokens["attention_mask"]}


def test_reads_pictures_as_hugging_face_does(model, pictures):
    processor = BlipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    expected = processor(images=pictures, return_tensors="pt")["pixel_values"]
    assert torch.allclose(model["image"].prepare(pictures)["pixel_values"], expected, atol=1e-5)


def test_as_published_captions_are_cleaned_and_cut_and_pictures_large(path, pictures):
    published = blip_original.load(path, published=True)
    text, plain = published["text"], blip_original.load(path)["text"]
    assert published["image"].prepare(pictures)["pixel_values"].shape[-2:] == (384, 384)
    assert torch.equal(text.encode(["A DOG (runs)!"]), plain.encode(["a dog runs"]))
    assert text.read.limit == 35 and plain.read.limit == 40


def test_adapts_no_cross_attention(model, pictures):
    assert len(model["image"].norm_params()) == 2 * (2 * 2 + 1)
    assert len(model["text"].norm_params()) == 2 * (2 * 2 + 1)
    assert not any("crossattention" in name for name in model["text"].norm_params())


def test_every_adapted_parameter_is_reached(model, pictures):
    for modality, items in {"image": pictures, "text": TEXTS}.items():
        encoder = model[modality]
        params = {name: value.requires_grad_() for name, value in encoder.norm_params().items()}
        encoder.through(params, encoder.ready(items))[:, 0].sum().backward()
        assert all(value.grad.abs().max() > 0 for value in params.values())


@torch.no_grad()
def test_the_published_image_size_interpolates_positions(path, reference, pictures, monkeypatch):
    monkeypatch.setattr(blip_original, "PUBLISHED_SIDE", 64)
    larger = blip_original.load(path, published=True)["image"]
    pixels = larger.prepare(pictures)["pixel_values"]
    assert pixels.shape[-1] == 64
    at_64 = Reference(64, (128, 2, 2), (BLIP_ROWS, 40, 64, 2, 1), 24).eval()
    weights = reference.visual_encoder.state_dict()
    grid = weights["pos_embed"][0, 1:].reshape(2, 2, 128).permute(2, 0, 1)[None]
    grown = torch.nn.functional.interpolate(grid, (4, 4), mode="bicubic", align_corners=False)
    places = torch.cat(
        [weights["pos_embed"][:, :1], grown[0].permute(1, 2, 0).reshape(1, 16, 128)], 1
    )
    at_64.visual_encoder.load_state_dict(weights | {"pos_embed": places})
    at_64.vision_proj.load_state_dict(reference.vision_proj.state_dict())
    assert torch.allclose(larger.encode(pictures), at_64.image(pixels), atol=1e-5)
    monkeypatch.setattr(blip_original, "PUBLISHED_SIDE", SIDE)
    same = blip_original.load(path, published=True)["image"]
    assert torch.equal(same.encode(pictures), blip_original.load(path)["image"].encode(pictures))


REAL = {
    "base": ((768, 12, 12), 223.7, (25, 38_400, 86.1), (37, 56_832, 137)),
    "large": ((1024, 24, 16), 446, (49, 100_352, 304), (37, 56_832, 142)),
}


@pytest.mark.parametrize("size", REAL)
def test_real_sizes_have_the_published_counts(size):
    vision, whole, image, text = REAL[size]
    with torch.device("meta"):
        published = Reference(384, vision, (30524, 512, 768, 12, 12), 256, pretrained=False)
    model = build(Checkpoint(Path(f"{size}.pth"), FORMAT, published.state_dict()))
    assert counted(model)[2] == pytest.approx(whole, abs=0.5)
    for tower, expected in ((model.vision_model, image), (model.text_encoder, text)):
        layers, adapted, millions = counted(tower)
        assert (layers, adapted) == expected[:2]
        assert millions == pytest.approx(expected[2], abs=0.5)
    sides = blip.encoders(model, reader=None, words=None)
    adapted = {name: side.norm_params().values() for name, side in sides.items()}
    assert [len(values) // 2 for values in adapted.values()] == [image[0], 25]
    assert sum(value.numel() for value in adapted["text"]) == 38_400
    taken = ("visual_encoder.", "text_encoder.", "vision_proj.", "text_proj.", "itm_head.")
    kept = [v.numel() for n, v in published.named_parameters() if n.startswith(taken)]
    assert sum(kept) == sum(value.numel() for value in model.parameters())
    assert {layer.eps for layer in model.vision_model.modules() if is_norm(layer)} == {1e-6}
    assert model.config.text_config.num_attention_heads == 12


def counted(module):
    norms = [part for part in module.modules() if is_norm(part)]
    adapted = sum(value.numel() for norm in norms for value in norm.parameters())
    return len(norms), adapted, sum(value.numel() for value in module.parameters()) / 1e6


class TestBadFiles:
    def test_names_a_missing_weight(self, path, tmp_path):
        name = "visual_encoder.blocks.1.norm2.bias"
        with pytest.raises(BadFile, match=rf"lacks {name}"):
            blip_original.load(damaged(path, tmp_path, lambda held: held.pop(name), "model"))

    def test_names_a_missing_weight_that_tells_a_size(self, path, tmp_path):
        name = "text_encoder.embeddings.position_embeddings.weight"
        with pytest.raises(BadFile, match=rf"lacks {name}"):
            blip_original.load(damaged(path, tmp_path, lambda held: held.pop(name), "model"))

    def test_names_an_extra_weight(self, path, tmp_path):
        extra = {"visual_encoder.gate": torch.zeros(1)}
        with pytest.raises(BadFile, match=r"has visual_encoder\.gate, which no part"):
            blip_original.load(damaged(path, tmp_path, lambda held: held.update(extra), "model"))


class TestTokenizer:
    @pytest.fixture
    def alone(self, path, tmp_path, monkeypatch):
        """The checkpoint without a vocabulary beside it, and no network."""
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        (tmp_path / path.name).write_bytes(path.read_bytes())
        return tmp_path / path.name

    def test_is_never_made_up(self, alone):
        with pytest.raises(BadInput, match=r"put its vocab\.txt beside the checkpoint"):
            blip_original.load(alone)

    def test_of_another_size_is_refused(self, alone):
        (alone.parent / "vocab.txt").write_text("\n".join(WORDS[:-3]))
        with pytest.raises(BadInput, match=f"has 11 words, the checkpoint .* has {BLIP_ROWS}"):
            blip_original.load(alone)
