"""Encoders of one's own reach `load` and every command that takes a model's name."""

import json

import pytest
import torch
from click.testing import CliRunner

import queryshift as qs
from queryshift.cli import main
from queryshift.errors import BadInput, UnknownName
from queryshift.models.inspect import examine

MODULE = """
import queryshift as qs

def make():
    return qs.load("tangram")

def one():
    return qs.load("tangram")["text"]

def needs(path):
    return make()

def wrong():
    return [1, 2]

def broken():
    return len(3)

class Pixels(qs.Encoder):
    def prepare(self, items):
        import torch
        return torch.zeros(len(items), 5)

    def forward(self, prepared):
        return prepared @ prepared  # the wrong shapes

def mismatched():
    return {"image": Pixels()}
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in the working folder, which is not on the path."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [entry for entry in __import__("sys").path if entry])
    return name


class Rows(qs.Encoder):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)

    def prepare(self, items):
        return torch.tensor(items)

    def forward(self, prepared):
        return torch.nn.functional.normalize(self.norm(prepared), dim=1)


def test_a_function_is_found_by_its_module_and_name(module):
    assert sorted(qs.load(f"{module}:make")) == ["image", "text"]
    assert list(qs.load(f"{module}:one")) == ["item"]


def test_a_class_a_function_an_encoder_and_a_mapping_can_be_loaded():
    encoder = Rows()
    assert qs.load(encoder) == {"item": encoder}
    assert qs.load({"text": encoder}) == {"text": encoder}
    assert isinstance(qs.load(Rows)["item"], Rows)
    assert list(qs.load(lambda: {"audio": Rows()}, adapt="all")) == ["audio"]


@pytest.mark.slow
def test_every_command_that_takes_a_model_takes_one_of_ones_own(module, tmp_path):
    checked = CliRunner().invoke(main, ["models", "check", f"{module}:make", "--json"])
    assert json.loads(checked.stdout)["warnings"] == []
    (tmp_path / "captions.txt").write_text("\n".join(f"a red square {i}" for i in range(16)))
    files = ["--queries", "captions.txt", "--gallery", "captions.txt"]
    few = ["--rates", "0.001", "--temperatures", "0.02", "--json"]
    tuned = CliRunner().invoke(main, ["tune", f"{module}:make", *files, *few])
    assert json.loads(tuned.stdout)["queries"] == 16
    asked = ["--queries", "8", "-m", "frozen", "--shift", "fog", "--json"]
    ran = CliRunner().invoke(main, ["run", "tangram-o-image", "--model", f"{module}:make", *asked])
    assert json.loads(ran.stdout)["model"] == f"{module}:make"


def test_mistakes_are_named(module):
    with pytest.raises(
        UnknownName, match=rf'no model "{module}:mak"; did you mean "{module}:make"'
    ):
        qs.load(f"{module}:mak")
    with pytest.raises(BadInput, match=r'no module "nowhere".*package.module:function'):
        qs.load("nowhere.models:make")
    with pytest.raises(BadInput, match=r"gave a list, expected a queryshift.Encoder"):
        qs.load(f"{module}:wrong")
    with pytest.raises(BadInput, match=r"cannot be called without arguments.*path"):
        qs.load(f"{module}:needs")
    with pytest.raises(TypeError, match="object of type 'int'"):
        qs.load(f"{module}:broken")
    with pytest.raises(BadInput, match="'text': int"):
        qs.load({"text": 3})


class TestChecked:
    def refusal(self, model):
        result = CliRunner().invoke(main, ["models", "check", model])
        assert result.exit_code == 2
        return " ".join(result.output.split())

    def test_a_mistake_in_ones_own_encoder_is_a_sentence_with_its_line(self, module):
        told = self.refusal(f"{module}:mismatched")
        line = MODULE[: MODULE.index("prepared @")].count("\n") + 1
        assert 'Error: Pixels failed on two items of "image" of shape (64, 64, 3) with' in told
        assert "mat1 and mat2 shapes cannot be multiplied (2x5 and 2x5)" in told
        assert f"{module}.py, line {line}). prepare() and forward() have to take items of" in told

    def test_a_single_encoder_is_told_how_to_say_its_modality(self, module):
        assert (
            'no items to try "item" with: known are image, text, audio, video. Give a mapping such '
            'as {"text": encoder}, or set modality = "text" in the class of a single encoder.'
        ) in self.refusal(f"{module}:one")

    def test_and_then_it_is_checked(self):
        class Words(Rows):
            modality = "text"

            def prepare(self, items):
                return torch.tensor([[len(item), 1.0, 2.0, float(ord(item[0]))] for item in items])

        assert examine(qs.load(Words), "mine").warnings == ()
