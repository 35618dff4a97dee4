"""`queryshift run` and `queryshift list` as a user types them."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

import coco_of_scenes
from queryshift.cli import COMMANDS, main
from queryshift.lab.datasets import DATASETS
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.methods import METHODS
from queryshift.models import MODELS


def ask(*words: str):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    root = coco_of_scenes.write(tmp_path_factory.mktemp("coco"), 6)
    out = tmp_path_factory.mktemp("runs")
    chosen = ("--model", "tangram", "--preprocessing", "library", "--device", "cpu")
    return ("run", "coco-o", "--shift", "fog", "--root", root, "--out", out, *chosen)


def test_a_run_prints_a_table_and_what_it_did(arguments):
    first = ask(*arguments, "-m", "frozen", "-m", "tent", "--seeds", 2)
    assert first.exit_code == 0, first.output
    assert "coco-o-image" in first.stdout and "fog" in first.stdout and "tent" in first.stdout
    assert "4 cells run, 0 kept from before." in first.stderr
    again = ask(*arguments, "-m", "frozen", "-m", "tent", "--seeds", 2)
    assert again.stdout == first.stdout
    assert "0 cells run, 4 kept from before." in again.stderr


def test_datasets_are_found_where_they_all_lie(tmp_path, monkeypatch):
    coco_of_scenes.write(tmp_path / "coco", 6)
    monkeypatch.setenv("QUERYSHIFT_DATA", str(tmp_path))
    chosen = ("--model", "tangram", "--shift", "fog", "-m", "frozen", "--out", tmp_path / "runs")
    told = ask("run", "coco-o", *chosen)
    assert told.exit_code == 0, told.output
    assert "1 cell run, 0 kept from before." in told.stderr


def test_settings_of_a_method_make_a_column_of_the_report(arguments):
    told = ask(*arguments, "-m", "rest", "-m", "rest:gap=False,decouple=true")
    assert told.exit_code == 0, told.output
    assert "rest:decouple=true,gap=false" in told.stdout
    kept = ask("report", arguments[arguments.index("--out") + 1], "--format", "csv")
    assert "rest:decouple=true,gap=false" in kept.stdout


def test_json_has_an_object_a_cell(arguments):
    told = ask(*arguments, "-m", "frozen", "--seeds", 2, "--json")
    cells = [json.loads(line) for line in told.stdout.splitlines()]
    assert [(cell["method"], cell["seed"]) for cell in cells] == [("frozen", 0), ("frozen", 1)]
    assert all(cell["queries"] == 6 and 0 <= cell["recall"]["1"] <= 100 for cell in cells)


def test_an_interrupt_says_what_is_kept(arguments, monkeypatch, tmp_path):
    def interrupted(*given):
        raise KeyboardInterrupt

    ask(*arguments, "-m", "frozen")
    monkeypatch.setattr("queryshift.lab.evaluation.runner.cell_executors.in_turn", interrupted)
    told = ask(*arguments, "-m", "shot")
    assert told.exit_code == 130 and told.stderr.startswith("Stopped; finished cells are in")
    told = ask(*arguments, "-m", "shot", "--out", tmp_path / "new")
    assert told.stderr.startswith("Stopped before the first cell was finished")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["coco-0"], 'no benchmark "coco-0"; did you mean "coco-o"'),
        (["coco-o", "--model", "tangram"], "needs the files of coco: give --root"),
        (["general2coco"], "QUERYSHIFT_DATA to the folder that holds coco/; and a model: give --m"),
        (["coco-o"], "needs the files of coco: give --root"),  # said before a model is looked for
        (["coco-o", "--root", "/nowhere"], "expected the one that holds coco"),
        (["tangram-o-image", "-m", "rset"], 'no method "rset"; did you mean "rest"'),
        (["tangram-o-image", "-m", "rest:gap=no"], 'gap is "no", expected true or false'),
        (["tangram-o-image", "--shift", "mist"], 'no shift of tangram-o-image "mist"'),
        (["tangram-o-image", "--severity", "9"], "from 1 to 5"),
        (["tangram-o-text", "--device", "cudaa"], 'the device "cudaa" cannot be used here'),
        (["coco-o", "--root", "/nowhere", "--model", "tangram"], "expected the one that holds"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_sentence(words, said, tmp_path):
    told = ask("run", *words, "--preprocessing", "library", "--out", tmp_path)
    assert told.exit_code == 2
    assert said in told.stderr and "Traceback" not in told.stderr


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("benchmarks", list(BENCHMARKS)),
        ("methods", [*METHODS, "+decoupled", "+refined"]),
        ("models", list(MODELS)),
        ("datasets", list(DATASETS)),
    ],
)
def test_lists_have_every_name(what, names):
    lines = ask("list", what).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == names
    told = [json.loads(line) for line in ask("list", what, "--json").stdout.splitlines()]
    assert [one["name"] for one in told] == names


def test_benchmarks_are_listed_with_what_they_need():
    told = {
        one["name"]: one
        for one in map(json.loads, ask("list", "benchmarks", "--json").stdout.splitlines())
    }
    assert told["coco-o-image"]["needs"] == "--root (coco)"
    assert told["fiq2cirr"]["needs"] == "--root (cirr), --model"
    assert told["tangram-d-video"]["needs"] == "nothing"
    assert told["fashion-gen-text"]["temperature"] == "0.001"


def test_corruptions_are_listed_by_category():
    lines = ask("list", "corruptions").stdout.splitlines()
    assert len(lines) == 1 + 16 + 15 + 3 + 12 + 6
    assert ["text", "ours", "typos"] in [line.split() for line in lines]
    assert lines[1].split() == ["image", "noise", "gaussian_noise"]


def test_both_commands_are_in_the_help():
    assert {"run", "list"} <= set(COMMANDS)


def test_a_disk_without_room_is_one_sentence(arguments, tmp_path):
    """A real limit on the size of files, in a process of its own."""
    words = [str(word) for word in arguments]
    words[words.index("--out") + 1] = str(tmp_path / "runs")
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "
    code += "from queryshift.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, *words, "-m", "frozen"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode in (1, 2) and "Traceback" not in ran.stderr, ran.stderr
    assert "could not be written" in ran.stderr and str(tmp_path) in ran.stderr.replace("\n", "")
