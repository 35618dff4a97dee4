import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import original_checkpoints
import pytest
import torch
from original_checkpoints import BANK, SIDES, damaged
from PIL import Image
from reference_cav_mae import Reference
from torch.nn.functional import normalize

from queryshift.encoders.adapted_parameters import adapt, is_norm
from queryshift.errors import BadFile, BadInput, BadItem
from queryshift.models import cav_mae
from queryshift.models.cav_mae import FORMAT, build, filter_bank
from queryshift.models.checkpoints import Checkpoint

LENGTH, SIDE = BANK, SIDES["cav_mae"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return original_checkpoints.cav_mae(tmp_path_factory.mktemp("cav"))


@pytest.fixture(scope="module")
def reference(written):
    return written[0]


@pytest.fixture(scope="module")
def path(written):
    return written[1]


@pytest.fixture(scope="module")
def model(path):
    return cav_mae.load(path)


@pytest.fixture
def clips():
    return list(np.random.default_rng(1).integers(0, 256, (2, 10, 40, 60, 3), dtype=np.uint8))


@pytest.fixture
def sounds():
    return list(np.random.default_rng(2).uniform(-0.5, 0.5, (3, 4000)).astype(np.float32))


def test_recognises_its_own_files_only(path, tmp_path):
    torch.save({"module.something": torch.zeros(1)}, tmp_path / "other.pth")
    assert cav_mae.FORMAT.recognises(path)
    assert not cav_mae.FORMAT.recognises(tmp_path / "other.pth")
    assert not cav_mae.FORMAT.recognises(tmp_path / "absent.pth")
    assert not cav_mae.FORMAT.recognises(tmp_path)


@torch.no_grad()
def test_audio_vectors_are_the_reference_s(model, reference, sounds):
    banks = torch.stack([torch.from_numpy(filter_bank(sound, LENGTH)) for sound in sounds])
    assert banks.shape == (3, LENGTH, 128)
    found = model["audio"].encode(sounds)
    assert torch.allclose(found, reference.audio(banks), atol=1e-5)
    assert torch.allclose(found.norm(dim=1), torch.ones(3))


@torch.no_grad()
def test_video_vectors_are_the_mean_of_the_reference_s_frames(model, reference, clips):
    frames = model["video"].prepare(clips)["frames"]
    assert frames.shape == (2, 10, 3, SIDE, SIDE)
    expected = normalize(torch.stack([reference.video(clip).mean(0) for clip in frames]), dim=1)
    assert torch.allclose(model["video"].encode(clips), expected, atol=1e-5)


@torch.no_grad()
def test_one_frame_as_in_the_published_script(path, reference, model, clips):
    published = cav_mae.load(path, published=True)["video"]
    expected = reference.video(model["video"].prepare(clips)["frames"][:, 5])
    assert torch.allclose(published.encode(clips), expected, atol=1e-5)


def test_ten_frames_lie_evenly_over_a_longer_clip(model):
    clip = [Image.new("L", (40, 40), 10 * number) for number in range(25)]
    frames = model["video"].prepare([clip])["frames"][0]
    shown = frames[:, 0, 0, 0] * 0.229 + 0.485
    assert (shown * 255 / 10).round().int().tolist() == [0, 2, 5, 7, 10, 12, 15, 17, 20, 22]


def test_a_clip_may_be_shorter_than_ten_frames(model, clips):
    assert model["video"].prepare([clips[0][:3]])["frames"].shape[1] == 10
    with pytest.raises(BadInput, match="without frames"):
        model["video"].prepare([clips[0][:0]])


@pytest.mark.parametrize("film", ["film.mp4", Path("film.mp4"), None])
def test_the_name_of_a_film_is_no_clip(model, clips, film):
    kind = film and type(film).__name__
    with pytest.raises(BadItem, match=rf"item 1, .*{kind}: expected a clip.*read_frames"):
        model["video"].encode([clips[0], film])


def test_one_clip_in_the_place_of_a_batch_is_refused(model, clips):
    with pytest.raises(BadInput, match=r"item 0, .*: got one image, .* give \[clip\]"):
        model["video"].encode(clips[0])


def test_adapts_the_norm_layers_on_the_query_s_path_alone(model, sounds, clips):
    for modality, items in {"audio": sounds, "video": clips}.items():
        encoder = model[modality]
        params = {name: value.requires_grad_() for name, value in encoder.norm_params().items()}
        encoder.through(params, encoder.ready(items))[:, 0].sum().backward()
        assert len(params) == 2 * (2 * 2 + 2 + 1)
        assert all(value.grad.abs().max() > 0 for value in params.values())


def test_the_part_below_the_last_blocks_is_cut_off_per_item(path, clips):
    plain, cut = (cav_mae.load(path)["video"] for _ in range(2))
    adapt({"video": cut}, "last:2")
    shared, whole = cut.ready(clips), plain.norm_params()
    assert all(len(value) == len(clips) for value in shared.values())
    first = {name: value[:1] for name, value in shared.items()}
    found = cut.through(cut.norm_params(), first)
    assert torch.allclose(found, plain.through(whole, plain.ready(clips))[:1], atol=1e-5)


def test_what_both_go_through_lies_in_memory_once(model):
    audio, video = (model[name].tower.blocks[-1] for name in ("audio", "video"))
    assert audio.mlp.fc1.weight.data_ptr() == video.mlp.fc1.weight.data_ptr()
    assert not torch.equal(audio.norm1.weight, video.norm1.weight)


def test_works_in_half_precision(path, sounds):
    encoder = cav_mae.load(path)["audio"]
    full = encoder.encode(sounds)
    half = encoder.to(torch.bfloat16).encode(sounds)
    assert (full * half.float()).sum(1).min() > 0.99


def test_real_size_has_the_published_counts():
    with torch.device("meta"):
        theirs = Reference(768, 11, 12, 512, 8, 16, 1024, 224)
    published = theirs.state_dict()
    kept = {name: v for name, v in published.items() if not name.startswith(("decoder", "mask"))}
    assert len(published) == 647
    assert round(sum(v.numel() for v in published.values()) / 1e6, 1) == 191.0
    assert round(sum(v.numel() for v in kept.values()) / 1e6, 1) == 164.5
    norms = [name for name, module in theirs.named_modules() if is_norm(module)]
    assert sum(not name.startswith("decoder") for name in norms) == 141

    towers = build(Checkpoint(Path("real.pth"), FORMAT, published)).values()
    counts = [sum(value.numel() for value in tower.parameters()) for tower in towers]
    shared = [v.numel() for n, v in kept.items() if re.match(r"blocks_u.*(attn|mlp)", n)]
    dead = (141 - 2 * 25) * 2 * 768
    assert sum(counts) - sum(shared) + dead == sum(v.numel() for v in kept.values())


@pytest.mark.parametrize("modality", ["audio", "video"])
def test_real_size_adapts_25_layers_and_38400_parameters(modality):
    with torch.device("meta"):
        published = Reference(768, 11, 12, 512, 8, 16, 1024, 224).state_dict()
    tower = build(Checkpoint(Path("real.pth"), FORMAT, published))[modality]
    norms = [module for module in tower.modules() if is_norm(module)]
    assert len(norms) == 25 and len(tower.blocks) == 12
    assert sum(value.numel() for norm in norms for value in norm.parameters()) == 38_400


class TestWaveforms:
    def test_padding_comes_before_normalising(self):
        bank = filter_bank(np.zeros(400), 4)
        assert np.allclose(bank[0], (np.log(np.finfo(np.float32).eps) + 5.081) / 4.4849)
        assert np.allclose(bank[1:], 1.133, atol=1e-3)

    def test_ten_seconds_give_1024_rows(self):
        bank = filter_bank(np.random.default_rng(0).uniform(-1, 1, 160_000), 1024)
        assert bank.shape == (1024, 128) and bank.dtype == np.float32
        assert np.allclose(bank[998:], 1.133, atol=1e-3) and not np.allclose(bank[997], 1.133)

    def test_a_constant_changes_nothing(self):
        sound = np.random.default_rng(0).uniform(-0.4, 0.4, 2000)
        assert np.allclose(filter_bank(sound, 8), filter_bank(sound + 0.3, 8), atol=1e-4)

    def test_another_rate_is_resampled(self):
        at = np.arange(48_000) / 48_000
        high = SimpleNamespace(samples=np.sin(2 * np.pi * 700 * at), rate=48_000)
        low = np.sin(2 * np.pi * 700 * at[::3])
        found, expected = filter_bank(high, 98), filter_bank(low, 98)
        heard = expected > 0
        assert heard.any() and np.allclose(found[heard], expected[heard], atol=1e-3)

    def test_refuses_two_channels_and_odd_types(self):
        with pytest.raises(BadInput, match=r"one channel of samples, got the shape \(2, 900\)"):
            filter_bank(np.zeros((2, 900)), 8)
        with pytest.raises(BadInput, match="type bool"):
            filter_bank(np.zeros(900, bool), 8)


class TestBadCheckpoints:
    def test_names_a_missing_weight(self, path, tmp_path):
        name = "blocks_u.0.norm1_a.bias"
        with pytest.raises(BadFile, match=rf"lacks {name}"):
            cav_mae.load(damaged(path, tmp_path, lambda held: held.pop(f"module.{name}")))

    def test_names_an_extra_weight(self, path, tmp_path):
        extra = {"module.gate": torch.zeros(1)}
        with pytest.raises(BadFile, match="has gate, which no part of the model takes"):
            cav_mae.load(damaged(path, tmp_path, lambda held: held.update(extra)))

    def test_a_fine_tuned_file_s_class_head_is_left_out(self, model, path, tmp_path, sounds):
        def tune(held):
            for name in [name for name in held if ".decoder" in name]:
                del held[name]
            held["module.mlp_head.0.weight"] = torch.ones(128)

        found = cav_mae.load(damaged(path, tmp_path, tune))["audio"].encode(sounds)
        assert torch.equal(found, model["audio"].encode(sounds))
