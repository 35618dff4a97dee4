"""The README: short, its examples run as they stand, and its commands and links lead somewhere."""

import csv
import re
import subprocess
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import queryshift as qs
from queryshift.cli import main
from queryshift.lab import tangram

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
VECTORS, AROUND, OWN = re.findall(r"```python\n(.*?)```", README, re.S)
COMMANDS = re.findall(r"^\$ (.*)$", README, re.M)
EVALUATE = re.findall(r"^queryshift evaluate (.*)$", README, re.M)
LINES, WORDS = 120, 900


def run(code: str, names: dict) -> str:
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code, "README.md", "exec"), names)
    return printed.getvalue()


def test_it_is_short():
    assert len(README.splitlines()) <= LINES
    assert len(README.split()) <= WORDS


def test_the_lines_with_vectors_run_as_they_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(200, 384)).astype(np.float32)
    np.save("documents.npy", documents)
    np.save("queries.npy", documents[:5])
    names: dict = {}
    run(VECTORS, names)
    assert [row[0] for row in names["best"]] == [0, 1, 2, 3, 4]
    assert len(names["best"][0]) == 10
    np.save("queries.npy", documents[7])  # a single one
    run(VECTORS, names)
    assert [row[0] for row in names["best"]] == [7]


def test_the_lines_with_an_encoder_run_with_the_bundled_model():
    shown = tangram.scenes("test", 16)
    names = {"qs": qs, "captions": [tangram.captions(one)[0] for one in shown]}
    names["photos"] = [scene.image() for scene in shown[:4]]
    run(AROUND.replace("openai/clip-vit-base-patch16", "tangram"), names)
    assert len(AROUND.splitlines()) == 3
    assert [row[0] for row in names["best"]] == [0, 1, 2, 3]


def test_a_class_of_ones_own_is_an_encoder():
    torch.manual_seed(0)
    parts = {
        "my_trained_model": lambda: torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.LayerNorm(8)
        ),
        "my_preprocessing": torch.tensor,
    }
    names = {"qs": qs, "torch": torch, **parts}
    run(OWN, names)
    model = qs.load(names["MyEncoder"])
    (encoder,) = model.values()
    items = torch.randn(32, 6).tolist()
    session = qs.Session(encoder, qs.Gallery.build(encoder, items))
    assert [row[0] for row in session.answer(items).top(1).ids] == list(range(32))


def test_its_first_two_commands_are_there():
    assert COMMANDS == ["make demo", "make test"]
    for command, ran in (("demo", "queryshift demo"), ("test", "pytest")):
        made = ["make", "-n", command]
        told = subprocess.run(made, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert ran in told


@pytest.mark.parametrize("command", EVALUATE)
def test_the_options_of_evaluate_are_there(command):
    options = re.findall(r"--[\w-]+", command)
    shown = CliRunner().invoke(main, ["evaluate", "--help"]).output
    assert options and all(option in shown for option in options)


def test_everything_it_links_to_exists():
    targets = re.findall(r"\]\((?!http)(.*?)(?:#.*?)?\)", README)
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target


def recall(dataset: str, model: str, stream: str, row: str) -> str:
    """What a row of the kept results has right, as the README writes it."""
    with (ROOT / "docs" / "results" / "real" / "figures.csv").open() as file:
        (found,) = (
            float(line["recall@1"])
            for line in csv.DictReader(file)
            if [line[name] for name in ("set", "model", "stream", "row")]
            == [dataset, model, stream, row]
        )
    return f"{found:.1f}"


@pytest.mark.parametrize(
    ("dataset", "model", "stream", "rows", "after"),
    [
        ("aws", "minilm", "clean", ("frozen", "vectors"), "MiniLM"),
        ("aws", "gte-small", "clean", ("frozen", "vectors"), "gte-small"),
        ("aws", "gte-small", "clean", ("frozen", "default"), ""),
        ("aws", "minilm", "chatty", ("frozen", "default"), ""),
        ("aws", "gte-small", "clean", ("tcr",), ""),
        ("aws", "gte-small", "typos 10 %", ("frozen", "default"), ""),
        ("aws", "gte-small", "typos 10 %", ("spelling+frozen", "spelling+default"), ""),
        ("pacs", "classes", "art painting", ("frozen", "default"), ""),
        ("pacs", "classes", "photo", ("frozen", "default"), ""),
    ],
)
def test_numbers_on_real_data_are_those_of_the_kept_results(dataset, model, stream, rows, after):
    words = [re.escape(recall(dataset, model, stream, row)) for row in rows] + [after] * bool(after)
    assert re.search(r"[^.\n]{1,40}".join(words), README)


def test_numbers_on_held_out_data_are_those_of_their_page():
    page = (ROOT / "docs" / "results" / "sealed.md").read_text(encoding="utf-8")
    means = page.split("## How far is it ahead")[1]
    names, online = (re.findall(rf"^\| {row} \|.*$", means, re.M)[0] for row in ("stream", "one.*"))
    ahead = dict(zip(names.split(" | "), online.split(" | "), strict=True))
    rest, shot = (float(ahead[name].split()[0]) for name in ("rest", "shot"))
    assert re.search(rf"\b{rest} points above REST and {shot} (points )?above SHOT", README)
