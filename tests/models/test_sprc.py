from pathlib import Path

import numpy as np
import original_checkpoints
import pytest
import torch
from original_checkpoints import damaged
from PIL import Image
from reference_sprc import Reference

from queryshift.encoders.adapted_parameters import is_norm
from queryshift.errors import BadFile, BadInput
from queryshift.models import sprc
from queryshift.models.checkpoints import Checkpoint
from queryshift.models.image_preprocessing import cropped, padded
from queryshift.models.sprc import FORMAT, ComposedEncoder, build

TEXTS = ["a red dog", "LONG grass (on) dog!", "runs"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return original_checkpoints.sprc(tmp_path_factory.mktemp("sprc"))


@pytest.fixture(scope="module")
def reference(written):
    return written[0]


@pytest.fixture(scope="module")
def path(written):
    return written[1]


@pytest.fixture(scope="module")
def model(path):
    return sprc.load(path)


@pytest.fixture(scope="module")
def pictures():
    return list(np.random.default_rng(4).integers(0, 256, (3, 40, 80, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def pairs(pictures):
    return list(zip(pictures, TEXTS, strict=True))


def to_32(tokens):
    grown = torch.zeros(len(tokens), 32, dtype=torch.long)
    grown[:, : tokens.shape[1]] = tokens
    return grown


def test_recognises_its_own_files_only(path, tmp_path):
    torch.save({"epoch": 1, "Blip2Qformer": {}}, tmp_path / "other.pt")
    assert sprc.FORMAT.recognises(path)
    assert not sprc.FORMAT.recognises(tmp_path / "other.pt")


@torch.no_grad()
def test_composed_queries_are_the_reference_s_with_captions_padded_to_32(model, reference, pairs):
    batch = model["image+text"].prepare(pairs)
    ids, mask = to_32(batch["input_ids"]), to_32(batch["attention_mask"])
    expected = reference.queries(batch["pixel_values"], ids, mask)
    found = model["image+text"].encode(pairs)
    assert found.shape == (3, 24)
    assert torch.allclose(found, expected, atol=1e-5)


@torch.no_grad()
def test_gallery_pictures_are_the_reference_s_32_vectors(model, reference, pictures):
    pixels = model["image"].prepare(pictures)["pixel_values"]
    found = model["image"].encode(pictures)
    assert found.shape == (3, 32, 24)
    assert torch.allclose(found, reference.gallery(pixels), atol=1e-5)


def test_similarity_is_the_best_of_the_32(model, reference, pictures, pairs):
    queries, gallery = model["image+text"].encode(pairs), model["image"].encode(pictures)
    batch = model["image+text"].prepare(pairs)
    with torch.no_grad():
        theirs = reference.queries(
            batch["pixel_values"], to_32(batch["input_ids"]), to_32(batch["attention_mask"])
        )
        candidates = reference.gallery(batch["pixel_values"])
    expected = torch.matmul(theirs[:, None, None], candidates.permute(0, 2, 1)).squeeze(2).amax(-1)
    assert torch.allclose(
        torch.einsum("qd,gvd->qgv", queries, gallery).amax(-1), expected, atol=1e-5
    )


def test_captions_are_cleaned_and_cut_to_32_tokens(model, pictures):
    encoder, one = model["image+text"], pictures[0]
    noisy, clean = encoder.encode([(one, 'RED  "long" (grass)!')]), [(one, "red long grass")]
    assert torch.equal(noisy, encoder.encode(clean))
    long = encoder.prepare([(one, "red " * 60), (one, "red")])
    assert long["input_ids"].shape == (2, 32)


def test_both_halves_count(model, pictures):
    first, other, changed = model["image+text"].encode(
        [(pictures[0], "a red dog"), (pictures[1], "a red dog"), (pictures[0], "long grass")]
    )
    assert not torch.allclose(first, other, atol=1e-3)
    assert not torch.allclose(first, changed, atol=1e-3)


def test_the_image_encoder_runs_once_and_below_the_graph(model, pairs):
    encoder = model["image+text"]
    shared = encoder.ready(pairs)
    assert set(shared) == {"seen", "input_ids", "attention_mask"}
    assert shared["seen"].shape == (3, 5, 176) and not shared["seen"].requires_grad
    found = encoder.through(encoder.norm_params(), shared)
    assert torch.allclose(found, encoder.encode(pairs), atol=1e-6)
    assert torch.allclose(encoder(encoder.prepare(pairs)), found, atol=1e-6)


def test_adapts_the_q_former_of_queries_alone(model, pairs, pictures):
    encoder, before = model["image+text"], model["image"].encode(pictures)
    params = {name: value.requires_grad_() for name, value in encoder.norm_params().items()}
    assert len(params) == 2 * (1 + 3 * 3 + 2)
    assert all(name.startswith("qformer.") for name in params)
    encoder.through(params, encoder.ready(pairs))[:, 0].sum().backward()
    assert all(value.grad.abs().max() > 0 for value in params.values())
    moved = {name: value.detach() + 0.1 for name, value in params.items()}
    assert not torch.allclose(
        encoder.through(moved, encoder.ready(pairs)), encoder.encode(pairs), atol=1e-3
    )
    assert torch.equal(model["image"].encode(pictures), before)


def test_works_in_half_precision(path, pairs, pictures):
    for modality, items in {"image+text": pairs, "image": pictures}.items():
        full = sprc.load(path)[modality]
        half = sprc.load(path)[modality].to(torch.bfloat16)
        params = half.norm_params()
        found = half.through(params, half.ready(items))
        assert {value.dtype for value in params.values()} == {torch.float32}
        assert (found * full.encode(items)).sum(-1).min() > 0.98


@pytest.mark.parametrize("item", ["words alone", (1, 2, 3), np.zeros((8, 8, 3), np.uint8)])
def test_refuses_what_is_no_pair(model, item):
    with pytest.raises(BadInput, match=r"item 0, .* a pair \(image, text\)"):
        model["image+text"].prepare([item])


class TestFraming:
    def test_a_long_picture_gets_bars_until_its_sides_are_as_5_to_4(self):
        wide = padded(Image.new("RGB", (200, 100), "white"), 1.25)
        assert wide.size == (200, 160)
        assert wide.getpixel((100, 29)) == (0, 0, 0) and wide.getpixel((100, 30)) != (0, 0, 0)
        assert padded(Image.new("RGB", (100, 200)), 1.25).size == (160, 200)

    @pytest.mark.parametrize("size", [(100, 100), (124, 100), (100, 124)])
    def test_a_picture_near_a_square_is_left_as_it_is(self, size):
        picture = Image.new("RGB", size)
        assert padded(picture, 1.25) is picture

    def test_the_middle_square_is_kept(self):
        columns = np.repeat(np.arange(100, dtype=np.uint8)[None, :, None], 50, 0).repeat(3, 2)
        found = np.asarray(cropped(Image.fromarray(columns), 50))
        assert found.shape == (50, 50, 3)
        assert found[0, 0, 0] == 25 and found[0, -1, 0] == 74


def test_real_size_has_the_published_counts():
    with torch.device("meta"):
        published = Reference(224, (1408, 6144, 39, 16), (30523, 512, 768, 12, 12), 256)
    model = build(Checkpoint(Path("sprc.pt"), FORMAT, published.state_dict()))
    vision = model.vision_model
    assert (vision.config.num_attention_heads, vision.config.image_size) == (16, 224)
    assert counted(model.qformer) == (43, 66_048)
    adapted = ComposedEncoder(model, reader=None, words=None).norm_params().values()
    assert (len(adapted) // 2, sum(value.numel() for value in adapted)) == (43, 66_048)
    assert counted(vision) == (78 + 1, 222_464)
    assert round(sum(value.numel() for value in vision.parameters()) / 1e6) == 986
    left_out = ("Qformer.cls", "prompt_tokens", "temp")
    kept = sum(v.numel() for n, v in published.named_parameters() if not n.startswith(left_out))
    zeros = 39 * 1408  # of the keys' biases, which EVA does not have
    assert sum(value.numel() for value in model.parameters()) == kept + zeros
    assert vision.post_layernorm.eps == 1e-5
    assert vision.encoder.layers[0].layer_norm1.eps == 1e-6


def counted(module):
    norms = [part for part in module.modules() if is_norm(part)]
    return len(norms), sum(value.numel() for norm in norms for value in norm.parameters())


class TestBadFiles:
    @pytest.mark.parametrize(
        "name", ["Qformer.bert.encoder.layer.2.crossattention.self.key.bias", "ln_vision.weight"]
    )
    def test_names_a_missing_weight(self, path, tmp_path, name):
        with pytest.raises(BadFile, match=rf"lacks {name}"):
            sprc.load(damaged(path, tmp_path, lambda held: held.pop(name), FORMAT.inside))

    def test_names_a_missing_bias_of_values(self, path, tmp_path):
        name = "visual_encoder.blocks.1.attn.v_bias"
        with pytest.raises(BadFile, match=r"lacks visual_encoder\.blocks\.1\.attn\.qkv\.bias"):
            sprc.load(damaged(path, tmp_path, lambda held: held.pop(name), FORMAT.inside))

    def test_names_an_extra_weight(self, path, tmp_path):
        extra = {"gate": torch.zeros(1)}
        with pytest.raises(BadFile, match="has gate, which no part"):
            sprc.load(damaged(path, tmp_path, lambda held: held.update(extra), FORMAT.inside))

    def test_another_image_encoder_is_named(self, path, tmp_path):
        extra = {"visual_encoder.conv1.weight": torch.zeros(1)}
        with pytest.raises(BadFile, match="has CLIP's ViT-L as its image encoder"):
            sprc.load(damaged(path, tmp_path, lambda held: held.update(extra), FORMAT.inside))
