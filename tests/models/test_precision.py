"""Half precision rounds no pixels: layers that read raw values do so in full, once per batch."""

import numpy as np
import original_checkpoints
import pytest
import torch
from test_open_clip import StandIn, transform
from tiny_checkpoints import CHECKPOINTS

import queryshift as qs
from queryshift.lab import tangram
from queryshift.lab.corruptions import find
from queryshift.models.blocks import full_precision, keep_input_layers_precise
from queryshift.models.open_clip import wrap

TANGRAM = [
    ("tangram", "image"),
    ("tangram-clips", "video"),
    ("tangram-clips", "audio"),
    ("tangram-edits", "image+text"),
]
ONCE = [
    *TANGRAM,
    ("AltCLIPModel", "image"),
    ("BlipForImageTextRetrieval", "image"),
    ("Blip2ForImageTextRetrieval", "image"),
    ("CLIPModel", "image"),
    ("ChineseCLIPModel", "image"),
    ("SiglipModel", "image"),
    ("cav_mae", "video"),
    ("cav_mae", "audio"),
    ("sprc", "image+text"),
]
SIDES = [*ONCE, ("Siglip2Model", "image"), ("ClapModel", "audio"), ("open_clip", "image")]
UNSTEADY = 187  # of the test split: rounded to bfloat16 and blurred, it turned by 3.4 degrees


@pytest.fixture(scope="module")
def things():
    """Three items of each modality."""
    scenes, clips = tangram.scenes("test", 3), tangram.clips("test", 3)
    words = ["red dog runs", "a dog", "long grass"]
    pictures = [scene.image() for scene in scenes]
    return {
        "image": pictures,
        "video": [clip.frames() for clip in clips],
        "audio": [clip.waveform()[:8000] for clip in clips],
        "image+text": list(zip(pictures, words, strict=True)),
    }


@pytest.fixture(scope="module")
def encoder(checkpoint, tmp_path_factory):
    """The encoder of a side in a precision, loaded anew."""
    home = tmp_path_factory.mktemp("originals")
    written = {name: getattr(original_checkpoints, name)(home)[1] for name in ("cav_mae", "sprc")}

    def load(name, modality, precision="float32"):
        if name != "open_clip":
            path = written.get(name) or (checkpoint(name) if name in CHECKPOINTS else name)
            return qs.load(path, precision=precision)[modality]
        torch.manual_seed(0)
        found = wrap(StandIn().eval(), transform, None)[modality]
        found.autocast = torch.bfloat16 if precision == "bfloat16" else None
        return found

    return load


def stems(encoder):
    """The layers that read raw values."""
    return [part for part in encoder.modules() if is_precise(part)]


def is_precise(layer):
    return getattr(layer.forward, "func", None) is full_precision


def watched(encoder):
    """What those layers give from now on."""
    seen = []
    for layer in stems(encoder):
        layer.register_forward_hook(lambda *run: seen.append(run[-1]))
    return seen


def rounding(encoder):
    """The same encoder with the layers' own forward."""
    for layer in stems(encoder):
        del layer.forward
    return encoder


@torch.no_grad()
def under_autocast(encoder, batch):
    """Vectors as somebody finds them who has switched half precision on around us."""
    prepared = encoder.prepare(batch)
    with torch.autocast("cpu", torch.bfloat16):
        return encoder(prepared)


def cosines(one, other):
    return torch.cosine_similarity(one.double(), other.double(), dim=-1)


@pytest.mark.parametrize(("name", "modality"), SIDES, ids=["-".join(side) for side in SIDES])
class TestEverySide:
    @pytest.fixture
    def batch(self, things, modality):
        return things[modality]

    @torch.no_grad()
    def test_reads_in_full_in_half_precision(self, encoder, batch, name, modality):
        full, half = encoder(name, modality), encoder(name, modality, "bfloat16")
        expected, found = watched(full), watched(half)
        full(full.prepare(batch))
        half(half.prepare(batch))
        under_autocast(half, batch)
        assert len(expected) == 1
        assert len(found) == 2
        assert all(torch.equal(one, expected[0]) for one in found)

    def test_gives_the_same_bits_in_full_precision(self, encoder, batch, name, modality):
        ours, plain = encoder(name, modality), rounding(encoder(name, modality))
        assert torch.equal(ours.encode(batch), plain.encode(batch))

    def test_would_round_otherwise(self, encoder, batch, name, modality):
        ours = encoder(name, modality, "bfloat16")
        plain = rounding(encoder(name, modality, "bfloat16"))
        assert not torch.equal(under_autocast(ours, batch), under_autocast(plain, batch))


@pytest.mark.parametrize(("name", "modality"), ONCE, ids=["-".join(side) for side in ONCE])
def test_patches_are_embedded_once_however_often_they_are_seen(encoder, things, name, modality):
    one = encoder(name, modality)
    seen, source = watched(one.replica().module), one.norm_params()
    shared = one.ready(things[modality])
    vectors = [one.through(source, shared) for _ in range(3)]
    assert len(seen) == 1
    with torch.no_grad():
        assert torch.allclose(vectors[-1], one(one.prepare(things[modality])), atol=1e-6)


@pytest.mark.parametrize(("name", "modality"), TANGRAM, ids=["-".join(side) for side in TANGRAM])
def test_tangrams_weights_in_half_precision_work_too(encoder, things, name, modality):
    full, half = encoder(name, modality), encoder(name, modality).to(torch.bfloat16)
    found = half.encode(things[modality])
    assert found.dtype == torch.bfloat16
    assert cosines(found, full.encode(things[modality])).min() > 0.999


def test_a_blurred_picture_stays_where_it_is(encoder):
    """Of 6,400 corrupted pictures the one that was farthest off, and those around it."""
    scenes = tangram.scenes("test", UNSTEADY + 4)[-16:]
    blur, draw = find("image", "defocus_blur"), np.random.default_rng(0)
    batch = [blur(scene.image(), 5, draw) for scene in scenes]
    expected = encoder("tangram", "image").encode(batch)
    half = encoder("tangram", "image", "bfloat16")
    assert cosines(half.encode(batch), expected).min() > 0.9999
    assert cosines(under_autocast(half, batch), expected).min() > 0.9999
    assert cosines(under_autocast(rounding(half), batch), expected).min() < 0.999


def test_only_layers_that_read_raw_values_are_changed():
    convolutions = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 1), torch.nn.Conv2d(8, 8, 1))
    keep_input_layers_precise(convolutions)
    assert [is_precise(one) for one in convolutions] == [True, False]
