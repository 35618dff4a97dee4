"""Making the bundled weights: kept runs, honest journals, and nothing good overwritten."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from training.loop import Plan

import queryshift as qs
from queryshift.lab import tangram
from queryshift.lab.tangram import model as bundled
from training import adopt, data, journal, loop, measure, stored, train

ROOT = Path(__file__).parents[2]
BUNDLED = bundled.WEIGHTS


def called(monkeypatch, main, *words):
    monkeypatch.setattr(sys, "argv", ["training", *map(str, words)])
    main()


@pytest.fixture()
def one_process(monkeypatch):
    """Worlds drawn here: forking a process with threads is for the command."""

    def filled(arrays, draw, count):
        draw(arrays, 0, count)
        return arrays

    monkeypatch.setattr(data, "_filled", filled)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda precision: None)
    yield
    bundled.WEIGHTS = BUNDLED  # what `stored.use` changed
    bundled.tokenizer.cache_clear()


class Stop(Exception):
    pass


class TestALoop:
    def learn(self, log, steps=12, stop_at=None):
        """A small regression; the step at which it is broken off may be given."""
        torch.manual_seed(0)
        model, taken = nn.Linear(3, 2), []

        def loss(chance):
            if stop_at is not None and len(taken) == stop_at:
                raise Stop
            taken.append(None)
            return (model(torch.randn(8, 3, generator=chance)) - 1).square().mean()

        loop.train(model, loss, Plan(steps, 8, seed=3), log)
        return model.state_dict(), len(taken)

    def test_one_that_was_stopped_goes_on_and_ends_as_if_it_had_not_been(
        self, tmp_path, monkeypatch, capsys
    ):
        monkeypatch.setattr(loop, "KEEP_EVERY", 0)
        monkeypatch.setattr(journal, "LOG_EVERY", 2)
        whole, _ = self.learn(tmp_path / "whole.jsonl")
        with pytest.raises(Stop):
            self.learn(tmp_path / "log.jsonl", stop_at=7)
        rest, taken = self.learn(tmp_path / "log.jsonl")
        assert taken == 5 and "log: goes on after step 7" in capsys.readouterr().out
        assert all(torch.equal(rest[name], whole[name]) for name in whole)
        noted = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
        assert [row["step"] for row in noted] == [2, 4, 6, 8, 10, 12]

    def test_lines_of_steps_that_are_taken_again_are_dropped(self, tmp_path, monkeypatch):
        monkeypatch.setattr(journal, "LOG_EVERY", 1)
        log = tmp_path / "log.jsonl"
        log.write_text("".join(f'{{"step": {step}}}\n' for step in (1, 2, 3)))
        journal.Journal(log, steps=2)
        assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == [1, 2]

    def test_what_another_plan_kept_is_not_taken_up(self, tmp_path):
        self.learn(tmp_path / "log.jsonl", steps=4)
        _, taken = self.learn(tmp_path / "log.jsonl", steps=6)
        assert taken == 6

    def test_a_finished_one_is_not_run_again(self, tmp_path):
        first, _ = self.learn(tmp_path / "log.jsonl")
        again, taken = self.learn(tmp_path / "log.jsonl")
        assert taken == 0 and all(torch.equal(again[name], first[name]) for name in first)

    def test_it_says_how_far_it_is(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(journal, "TELL_EVERY", 0)
        self.learn(tmp_path / "log.jsonl", steps=4)
        told = capsys.readouterr().out.splitlines()
        assert [line.split(",")[0] for line in told] == [
            *("log: 25.0%", "log: 50.0%", "log: 75.0%", "log: 100.0%")
        ]
        assert "step 4, loss " in told[-1] and told[-1].endswith("about 0:00:00 left")

    def test_a_schedule_ends_with_its_seconds_too(self):
        assert Plan(100, 8, seconds=10).done(1, 5) == 0.5
        assert Plan(100, 8).done(30, 1e9) == 0.3


@pytest.mark.parametrize("task", train.MADE_BY)
def test_a_tiny_training_gives_a_folder_that_load_can_use(task, tmp_path, monkeypatch, one_process):
    shares = ("--share", "1e-9", "--batch", "4", "--device", "cpu")
    called(monkeypatch, train.main, task, *shares, "--weights", tmp_path)
    for name in train.MADE_BY[task]:
        assert (tmp_path / train.STORED[name]).stat().st_size == (
            (BUNDLED / train.STORED[name]).stat().st_size
        )
        assert json.loads((tmp_path / "logs" / f"{name}.json").read_text())["steps"] == 2
    assert not list(tmp_path.rglob("*.part"))
    found = measure.TABLE[task](20, "dev")
    least = adopt.LEAST[task]
    assert set(least) <= set(found)
    assert any(found[name] < least[name] for name in least)


def test_training_reads_with_the_tokenizer_of_its_folder(tmp_path, monkeypatch, one_process):
    told = json.loads((BUNDLED / stored.TOKENIZER).read_text())
    told["model"]["vocab"]["zzz"] = len(told["model"]["vocab"])
    (tmp_path / stored.TOKENIZER).write_text(json.dumps(told))
    shares = ("--share", "1e-9", "--batch", "4", "--device", "cpu")
    called(monkeypatch, train.main, "edits", *shares, "--weights", tmp_path)
    table = load_file(tmp_path / train.STORED["edits"])["image+text.words.table.weight"]
    assert len(table) == len(told["model"]["vocab"])
    assert json.loads((tmp_path / stored.TOKENIZER).read_text()) == told


def test_training_writes_into_no_folder_of_the_package_unless_told_to(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train", "scenes"])
    assert train._options().weights == Path("runs/weights")
    assert "/runs/" in (ROOT / ".gitignore").read_text().splitlines()


class TestAdopting:
    @pytest.fixture()
    def new(self, tmp_path):
        """Weights as training leaves them, but those of scenes."""
        folder = tmp_path / "new"
        (folder / "logs").mkdir(parents=True)
        (folder / stored.TOKENIZER).write_text("words")
        for task in ("clips", "edits"):
            (folder / train.STORED[task]).write_text(f"new {task}")
            for ending in ("json", "jsonl"):
                (folder / "logs" / f"{task}.{ending}").write_text(f"new {task} {ending}")
        return folder

    @pytest.fixture()
    def old(self, tmp_path):
        folder = tmp_path / "old"
        folder.mkdir()
        (folder / stored.TOKENIZER).write_text("words")
        for name in train.STORED.values():
            (folder / name).write_text("old")
        return folder

    def adopted(self, monkeypatch, new, old, clips, edits):
        table = {
            "clips": lambda count, split: {"video->audio": clips, "audio->video": 99.0},
            "edits": lambda count, split: {"image+text->image": edits},
            "scenes": lambda count, split: dict.fromkeys(adopt.LEAST["scenes"], 95.0),
        }
        monkeypatch.setattr(measure, "TABLE", table)
        monkeypatch.setattr(adopt, "use", lambda folder: None)
        called(monkeypatch, adopt.main, new, "--into", old, "--logs", old)

    def test_good_weights_and_their_logs_take_the_place(self, monkeypatch, new, old, capsys):
        self.adopted(monkeypatch, new, old, clips=90.0, edits=80.0)
        assert (old / "tangram-clips.safetensors").read_text() == "new clips"
        assert (old / "tangram-edits.safetensors").read_text() == "new edits"
        assert (old / "edits.jsonl").read_text() == "new edits jsonl"
        assert {file.name for file in old.iterdir()} == {
            *(stored.TOKENIZER, *train.STORED.values()),
            *("clips.json", "clips.jsonl", "edits.json", "edits.jsonl"),
        }
        assert "edits: image+text->image 80.0 %, at least 80.0 wished" in capsys.readouterr().out

    def test_poor_ones_do_not_and_are_named(self, monkeypatch, new, old):
        with pytest.raises(SystemExit, match=r"^edits: not adopted: .* keeps what it has"):
            self.adopted(monkeypatch, new, old, clips=90.0, edits=79.9)
        assert (old / "tangram-edits.safetensors").read_text() == "old"
        assert (old / "tangram-clips.safetensors").read_text() == "new clips"

    def test_what_reads_with_another_tokenizer_is_not_adopted_alone(
        self, monkeypatch, new, old, capsys
    ):
        (new / stored.TOKENIZER).write_text("other words")
        with pytest.raises(SystemExit, match=r"^edits: not adopted"):
            self.adopted(monkeypatch, new, old, clips=90.0, edits=90.0)
        assert (old / stored.TOKENIZER).read_text() == "words"
        assert (old / "tangram-edits.safetensors").read_text() == "old"
        assert (old / "tangram-clips.safetensors").read_text() == "new clips"
        assert "scenes and edits are adopted together or not at all" in capsys.readouterr().out

    def test_another_tokenizer_comes_with_all_that_read(self, monkeypatch, new, old):
        (new / stored.TOKENIZER).write_text("other words")
        for name in ("scenes", "matching"):
            (new / train.STORED[name]).write_text(f"new {name}")
            for ending in ("json", "jsonl"):
                (new / "logs" / f"{name}.{ending}").write_text("")
        self.adopted(monkeypatch, new, old, clips=90.0, edits=90.0)
        assert (old / stored.TOKENIZER).read_text() == "other words"
        assert (old / "tangram-matching.safetensors").read_text() == "new matching"

    def test_what_was_not_trained_stays(self, monkeypatch, new, old):
        self.adopted(monkeypatch, new, old, clips=90.0, edits=90.0)
        assert (old / "tangram.safetensors").read_text() == "old"

    def test_an_empty_folder_is_no_folder_of_weights(self, monkeypatch, tmp_path, old):
        with pytest.raises(SystemExit, match="no finished weights"):
            self.adopted(monkeypatch, tmp_path, old, clips=90.0, edits=90.0)


def test_the_measure_of_edits_counts_what_is_found_instead(one_process):
    found = measure.edits(201, "test")
    edits = tangram.edits("test", 201)
    gallery = tangram.candidates(edits)
    model = qs.load("tangram-edits")
    asked = measure.encode(model["image+text"], [edit.query() for edit in edits])
    shown = measure.encode(model["image"], [scene.image() for scene in gallery])
    first = [gallery[row] for row in (asked @ shown.T).argmax(1)]
    references = sum(one == edit.reference for one, edit in zip(first, edits, strict=True))
    missed = sum(one != edit.target for one, edit in zip(first, edits, strict=True))
    assert found["queries that miss"] == missed
    assert found["image+text->image"] == pytest.approx(100 * (1 - missed / 201), abs=0.01)
    assert found["of them find their reference"] == references
    assert 0 < found["of them find their target's sibling"] <= missed - references


@pytest.mark.slow
def test_the_command_can_be_stopped_and_goes_on(tmp_path):
    command = [sys.executable, "-u", "-m", "training.train", "edits", "--share", "0.02"]
    command += ["--batch", "8", "--device", "cpu", "--weights", str(tmp_path)]
    keep_often = "import training.loop as l; l.KEEP_EVERY = 0.1; "
    code = f"{keep_often}import runpy; runpy.run_module('training.train', run_name='__main__')"
    command[2:4] = ["-c", code]
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 120
    while not (tmp_path / "logs" / "edits.part").exists() and time.monotonic() < until:
        time.sleep(0.1)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=60)
    assert first.returncode == 1 and said.decode().startswith("stopped: ")
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "edits: goes on after step" in second.stdout
    assert (tmp_path / train.STORED["edits"]).exists()
