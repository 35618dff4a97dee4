import os
import pickle
import zipfile

import pytest
import torch
from torch import nn

from queryshift.errors import BadFile
from queryshift.models import blip_original, cav_mae, sprc
from queryshift.models.checkpoints import Format, read, renamed

TOY = Format(
    name="Toy",
    marks=frozenset({"body.0.weight"}),
    inside="model",
    prefix="module.",
    unused=(r"queue", r"body_m\..*"),
)


authors = renamed(("layers.", "body."), ("head", "out"))


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
        self.head = nn.Linear(3, 1)


def weights(**changes):
    names = [f"body.{index}.{part}" for index in range(2) for part in ("weight", "bias")]
    shapes = [(3, 3), (3,), (3, 3), (3,), (1, 3), (1,)]
    found = dict(zip([*names, "out.weight", "out.bias"], shapes, strict=True))
    drawn = {f"module.{name}": torch.randn(shape) for name, shape in found.items()}
    return drawn | {f"module.{name}": value for name, value in changes.items()}


def saved(path, held):
    torch.save(held, path)
    return path


def toy():
    with torch.device("meta"):
        return Toy()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "toy.pth"


def test_fills_every_weight_under_its_authors_name(path):
    held = weights()
    module = TOY.open(saved(path, {"model": held, "epoch": 3})).fill(toy(), authors)
    assert torch.equal(module.layers[1].weight, held["module.body.1.weight"])
    assert torch.equal(module.head.bias, held["module.out.bias"])
    assert not module.training


def test_what_retrieval_has_no_use_for_is_left_out(path):
    spare = {"queue": torch.zeros(9), "body_m.0.weight": torch.zeros(3, 3)}
    TOY.open(saved(path, {"model": weights(**spare)})).fill(toy(), authors)


def test_half_precision_becomes_float32(path):
    held = {name: value.half() for name, value in weights().items()}
    module = TOY.open(saved(path, {"model": held})).fill(toy(), authors)
    assert {value.dtype for value in module.parameters()} == {torch.float32}
    assert torch.equal(module.head.weight, held["module.out.weight"].float())


def test_weights_outlive_their_file(path):
    held = weights()
    module = TOY.open(saved(path, {"model": held})).fill(toy(), authors)
    path.write_bytes(bytes(path.stat().st_size))
    assert torch.equal(module.layers[0].weight, held["module.body.0.weight"])


def test_counts_blocks(path):
    checkpoint = TOY.open(saved(path, {"model": weights()}))
    assert checkpoint.depth("body.") == 2
    assert checkpoint.depth("absent.") == 0
    assert checkpoint.shape("out.weight") == (1, 3)
    with pytest.raises(BadFile, match=r"lacks out\.gain"):
        checkpoint.shape("out.gain")


def test_names_missing_and_extra_weights_together(path):
    held = weights(gate=torch.zeros(1))
    del held["module.body.1.bias"], held["module.out.bias"]
    with pytest.raises(BadFile) as caught:
        TOY.open(saved(path, {"model": held})).fill(toy(), authors)
    sentence = str(caught.value)
    assert f"{path} does not fit Toy" in sentence
    assert "it lacks body.1.bias, out.bias and it has gate, which no part" in sentence


def test_names_a_few_of_many(path):
    held = weights(**{f"gate{index}": torch.zeros(1) for index in range(9)})
    with pytest.raises(BadFile, match="gate3, gate4 and 4 more, which"):
        TOY.open(saved(path, {"model": held})).fill(toy(), authors)


def test_names_a_weight_of_another_shape(path):
    held = weights(**{"out.weight": torch.zeros(1, 4)})
    with pytest.raises(BadFile, match=r"out.weight has shape \(1, 4\), expected \(1, 3\)"):
        TOY.open(saved(path, {"model": held})).fill(toy(), authors)


@pytest.mark.parametrize("held", [{"model": {}}, {"net": weights()}, [1, 2], torch.zeros(3)])
def test_a_foreign_checkpoint_is_not_recognised(path, held):
    saved(path, held)
    assert not TOY.recognises(path)
    with pytest.raises(BadFile, match=r"does not fit Toy: it lacks body\.0\.bias"):
        TOY.open(path).fill(toy(), authors)


def test_recognition_goes_by_suffix_and_names(path):
    saved(path, {"model": weights()})
    assert TOY.recognises(path)
    assert TOY.recognises(path.rename(path.with_suffix(".pt")))
    assert not TOY.recognises(path.with_suffix(".pt").rename(path.with_suffix(".bin")))


class Intruder:
    def __reduce__(self):
        return os.mkdir, ("intruder-was-here",)


@pytest.mark.parametrize(
    "write", [torch.save, lambda held, path: path.write_bytes(pickle.dumps(held, 2))]
)
def test_code_in_a_file_never_runs(path, write, monkeypatch):
    monkeypatch.chdir(path.parent)
    write({"model": weights(), "extra": Intruder()}, path)
    with pytest.raises(BadFile, match=r"holds Python objects .* could run code") as caught:
        read(path)
    assert not (path.parent / "intruder-was-here").exists()
    for name, form in (("BLIP", blip_original.FORMAT), ("SPRC", sprc.FORMAT)):
        assert f'{{"{form.inside}": weights}} for {name}' in str(caught.value)
    assert cav_mae.FORMAT.inside is None and "without a key for CAV-MAE" in str(caught.value)


def test_a_truncated_file_says_so(path):
    saved(path, {"model": weights()})
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(BadFile, match="is cut short"):
        read(path)


@pytest.mark.parametrize("held", [b"", b"hello", b"\x89PNG\r\n" * 40, bytes(500)])
def test_a_file_that_is_no_checkpoint_says_so(path, held):
    path.write_bytes(held)
    with pytest.raises(BadFile, match="damaged, or no PyTorch file"):
        read(path)


def test_a_zip_file_that_is_no_checkpoint_says_so(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(BadFile, match="damaged, or no PyTorch file"):
        read(path)


def test_an_absent_file_says_so(path):
    with pytest.raises(BadFile, match="there is no file"):
        read(path)


def test_files_of_before_torch_1_6_are_read(path):
    torch.save({"model": weights()}, path, _use_new_zipfile_serialization=False)
    assert TOY.recognises(path)
    TOY.open(path).fill(toy(), authors)
