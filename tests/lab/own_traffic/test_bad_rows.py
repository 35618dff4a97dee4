"""Rows that cannot be used are left out, counted and named; too many, or --strict, stop."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

import queryshift as qs
from queryshift.cli import main
from queryshift.errors import BadFile, BadInput
from queryshift.lab import tangram
from queryshift.media.bad_rows import BadRows

COUNT = 24


@pytest.fixture
def home(tmp_path):
    """Pictures of which one is broken, and a log with an empty text, no time, and no JSON."""
    scenes = tangram.scenes("dev", COUNT)
    (tmp_path / "pictures").mkdir()
    for place, scene in enumerate(scenes):
        Image.fromarray(np.asarray(scene.image())).save(tmp_path / "pictures" / f"{place:02}.png")
    (tmp_path / "pictures" / "broken.png").write_bytes(b"\x89PNG no picture")
    rows = [
        {"id": place, "time": place, "text": tangram.captions(scene)[0]}
        for place, scene in enumerate(scenes)
    ]
    rows[3]["text"] = "  "
    rows[5]["time"] = ""
    lines = list(map(json.dumps, rows))
    lines.insert(7, "{no json")
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    right = {str(place): [f"{place:02}.png"] for place in range(COUNT)} | {"900": ["00.png"]}
    (tmp_path / "right.json").write_text(json.dumps(right))
    return tmp_path


def asked(home, *more):
    files = ["--gallery", str(home / "pictures"), "--queries", str(home / "log.jsonl")]
    files += ["--matches", str(home / "right.json"), "--results", str(home / "r.jsonl")]
    command = ["evaluate", "--model", "tangram", *files, "-m", "frozen", *more]
    return CliRunner().invoke(main, command, env={"COLUMNS": "300"})


def test_bad_rows_are_left_out_counted_and_named(home):
    ran = asked(home)
    assert ran.exit_code == 0, ran.output
    assert (
        "Left out of the queries, as they cannot be used: 3." in ran.output
        and "Left out of the candidates, as they cannot be used: 1." in ran.output
    )
    for said in ("line 4: the text is empty", "line 6: got the time stamp", "line 8: not JSON"):
        assert said in ran.output
    assert "'broken.png'" in ran.output
    assert (
        "Left out of the matches, as they cannot be used: 3." in ran.output
        and 'no query with the id "900"' in ran.output
    )
    told = json.loads(asked(home, "--json").output)
    assert told["left_out"] == {"queries": 3, "candidates": 1, "matches": 3}
    assert (told["queries"], told["candidates"]) == (COUNT - 2, COUNT)
    page = home / "page.html"
    asked(home, "--out", str(page))
    assert "Left out of the queries, as they cannot be used: 3." in page.read_text()


def test_strict_stops_at_the_first(home):
    ran = asked(home, "--strict")
    assert ran.exit_code == 2 and "line" in ran.output and "log.jsonl" in ran.output


def test_a_file_with_many_bad_rows_is_refused(home):
    lines = (home / "log.jsonl").read_text().splitlines()
    (home / "log.jsonl").write_text("\n".join([*lines[:12], *["{no json"] * 3]))
    ran = asked(home)
    assert ran.exit_code == 2
    assert "6 of 15 queries cannot be used, more than 20 %" in ran.output


def test_vectors_that_are_no_vectors_are_left_out():
    rng = np.random.default_rng(0)
    gallery = list(rng.normal(size=(30, 8)).astype(np.float32))
    queries = [vector.copy() for vector in gallery]
    queries[4][2] = np.nan
    queries[9][:] = 0
    queries[11] = queries[11][:5]
    right = {place: [place] for place in range(30)}
    done = qs.evaluate(None, gallery, queries, matches=right)
    assert len(done.traffic.queries) == 27 and done.rows[0].measures["recall@1"] == 100.0
    assert any("queries, 4: holds NaN" in sentence for sentence in done.bad)
    with pytest.raises(BadFile, match="queries, 4: holds NaN"):
        qs.evaluate(None, gallery, queries, matches=right, strict=True)


def test_the_first_ten_are_named():
    bad = BadRows("queries")
    for place in range(13):
        bad.add(BadInput("it is empty."), f"row {place}")
    assert len(bad.sentences) == 12 and bad.sentences[-1] == "and 3 more."
    bad.check(65)
    with pytest.raises(BadFile, match="13 of 64 queries cannot be used"):
        bad.check(64)


class Broken(qs.Encoder):
    """An own encoder with a mistake in it."""

    def __init__(self, where="forward"):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.where = where

    def prepare(self, items):
        if self.where == "prepare":
            raise KeyError("tokens")
        return torch.ones(len(items), 4)

    def forward(self, prepared):
        return self.norm(prepared) @ torch.ones(3)


class BrokenToo(Broken):
    def __init__(self):
        super().__init__("prepare")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Broken, r"Broken\.forward \(line \d+ of test_bad_rows\.py\) raised RuntimeError: "),
        (
            BrokenToo,
            r"BrokenToo\.prepare \(line \d+ of test_bad_rows\.py\) raised KeyError: 'tokens'",
        ),
    ],
)
def test_an_own_encoders_mistake_is_a_sentence_with_its_class_and_method(kind, said):
    with pytest.raises(BadInput, match=said) as raised:
        qs.evaluate(kind, ["a", "b"], ["a", "b"], matches={0: [0], 1: [1]})
    assert not isinstance(raised.value.__cause__, qs.Error)


def test_the_command_shows_the_traceback_where_it_is_asked_to(tmp_path, monkeypatch):
    (tmp_path / "texts.txt").write_text("one\ntwo\nthree")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_module_of_mine.py").write_text(
        "import queryshift as qs\nclass Mine(qs.Encoder):\n"
        "    def prepare(self, items):\n        return items.shape\n"
        "    def forward(self, prepared):\n        return prepared\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    command = ["evaluate", "--model", "own_module_of_mine:Mine", "--gallery", "texts.txt"]
    ran = CliRunner().invoke(main, [*command, "--queries", "texts.txt"])
    assert ran.exit_code == 2 and "Mine.prepare (line 4 of own_module_of_mine.py)" in ran.output
    assert "--traceback" in ran.output
    ran = CliRunner().invoke(main, [*command, "--queries", "texts.txt", "--traceback"])
    assert isinstance(ran.exception, AttributeError)
