"""What cannot be loaded is refused in a sentence, and nothing is half-loaded."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import queryshift as qs
from queryshift.errors import BadFile, BadInput, UnknownName


@pytest.fixture()
def clip(checkpoint, tmp_path):
    """A CLIP directory of one's own, to damage."""
    return shutil.copytree(checkpoint("CLIPModel"), tmp_path / "model")


def rewrite(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_a_directory_that_is_no_model(tmp_path):
    with pytest.raises(BadFile, match=r"is no model: expected a directory with config\.json"):
        qs.load(tmp_path)


def test_a_config_that_is_no_json(clip):
    (clip / "config.json").write_text("{")
    with pytest.raises(BadFile, match="is not JSON"):
        qs.load(clip)


@pytest.mark.parametrize(
    ("architecture", "complaint"),
    [
        ("BlipModel", "use a checkpoint saved from BlipForImageTextRetrieval"),
        ("BlipForConditionalGeneration", "use a checkpoint saved from BlipForImageTextRetrieval"),
        ("Blip2Model", "use a checkpoint saved from Blip2ForImageTextRetrieval"),
        ("BertModel", "Classes that can be loaded: CLIPModel, "),
        (None, "saved from the class none"),
    ],
)
def test_another_class(clip, architecture, complaint):
    rewrite(clip, architectures=[architecture] if architecture else None)
    with pytest.raises(BadFile, match=complaint):
        qs.load(clip)


def test_code_of_its_own_is_never_run(clip):
    (clip / "mine.py").write_text("raise SystemExit('this ran')")
    rewrite(clip, architectures=["Mine"], auto_map={"AutoModel": "mine.Mine"})
    with pytest.raises(BadFile, match="custom code, which is never run"):
        qs.load(clip)


def test_missing_weights_are_named(clip):
    weights = load_file(clip / "model.safetensors")
    del weights["visual_projection.weight"]
    save_file(weights, clip / "model.safetensors", {"format": "pt"})
    with pytest.raises(BadFile, match=r"lacks 1 weights of CLIPModel: visual_projection\.weight"):
        qs.load(clip)


def test_weights_of_another_shape(clip):
    weights = load_file(clip / "model.safetensors")
    weights["visual_projection.weight"] = torch.zeros(5, 16)
    save_file(weights, clip / "model.safetensors", {"format": "pt"})
    with pytest.raises(BadFile, match=r"the weights of .* could not be read"):
        qs.load(clip)


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_a_damaged_file(clip, file):
    (clip / file).write_bytes(b"\x00garbage")
    with pytest.raises(BadFile, match="could not be read"):
        qs.load(clip)


def test_no_weights(clip):
    (clip / "model.safetensors").unlink()
    with pytest.raises(BadFile, match=r"the weights of .* could not be read"):
        qs.load(clip)


def test_no_image_processor(clip):
    for file in ("preprocessor_config.json", "processor_config.json"):
        (clip / file).unlink(missing_ok=True)
    with pytest.raises(BadFile, match=r"the image processor of .* could not be read"):
        qs.load(clip)


def test_a_name_that_is_not_cached_while_offline():
    with pytest.raises(BadInput, match="not in the local Hugging Face cache") as refusal:
        qs.load("somebody/some-model")
    assert '"somebody/some-model"' in str(refusal.value)
    assert "copy the model's directory here and give its path" in str(refusal.value)


@pytest.mark.parametrize("name", [None, torch.nn.Linear(2, 2), 3])
def test_what_is_no_name(name):
    with pytest.raises(BadInput, match=rf"got a {type(name).__name__}, expected a name.*wrap"):
        qs.load(name)


@pytest.mark.parametrize("device", ["cudaa", "mtia"])
def test_a_device_that_is_not_here(device):
    with pytest.raises(BadInput, match=f'the device "{device}" cannot be used here'):
        qs.load("tangram", device=device)


def test_a_short_name_that_is_none():
    said = 'no model "clip-bas"; did you mean "clip-base".*also be a directory.*module:function'
    with pytest.raises(UnknownName, match=said):
        qs.load("clip-bas")


def test_a_file_of_no_known_format(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(BadFile, match="none of the checkpoint files known here"):
        qs.load(tmp_path / "notes.txt")


@pytest.mark.parametrize("option", [{"precision": "int8"}, {"preprocessing": "other"}])
def test_options_that_are_none(clip, option):
    with pytest.raises(UnknownName, match="Known: "):
        qs.load(clip, **option)


class Trojan:
    def __reduce__(self):
        return (exec, ("raise SystemExit('this ran')",))


def test_a_pickle_that_would_run_code(clip):
    (clip / "model.safetensors").unlink()
    torch.save({"visual_projection.weight": Trojan()}, clip / "pytorch_model.bin")
    with pytest.raises(BadFile, match=r"the weights of .* could not be read"):
        qs.load(clip)
