"""`queryshift figure`."""

import json

import pytest
from click.testing import CliRunner

from queryshift.cli import main
from queryshift.lab.figures import scaling


def called(*arguments):
    return CliRunner().invoke(main, ["figure", *map(str, arguments)])


def test_numbers_and_verdict(opened, tmp_path):
    ran = called("scaling", "--out", tmp_path / "one.json")
    assert ran.exit_code == 0, ran.output
    verdict, path = ran.output.splitlines()
    written = json.loads((tmp_path / "one.json").read_text())
    assert path == str(tmp_path / "one.json")
    assert verdict.endswith(written["finding"])


def test_a_picture_with_its_numbers_and_again_from_them(opened, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    first = called("scaling", "--out", tmp_path / "one.png", "--json")
    assert first.exit_code == 0, first.output
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(scaling, "compute", None)  # calling it would fail
    again = called("scaling", "--from", tmp_path / "one.json", "--out", tmp_path / "two.svg")
    assert again.exit_code == 0, again.output
    assert again.output.splitlines()[0] == first.output.splitlines()[0]
    assert "</svg>" in (tmp_path / "two.svg").read_text()


def test_foreign_numbers_are_refused(tmp_path):
    (tmp_path / "one.json").write_text('{"kind": "Pie"}')
    ran = called("scaling", "--from", tmp_path / "one.json", "--out", tmp_path / "two.json")
    assert ran.exit_code == 2
    assert "cannot be read as the numbers of a figure" in ran.output
    (tmp_path / "one.json").write_bytes(b"\x89PNG")  # the picture in the place of its numbers
    ran = called("scaling", "--from", tmp_path / "one.json", "--out", tmp_path / "two.json")
    assert "cannot be read as the numbers of a figure" in ran.output


def test_an_unknown_benchmark_is_one_sentence(tmp_path):
    ran = called("scaling", "--benchmark", "cocoo", "--out", tmp_path / "one.json")
    assert ran.exit_code == 2
    assert 'no benchmark "cocoo"' in ran.output


def test_choices_reach_the_stage(opened, tmp_path, monkeypatch):
    seen = []

    def compute(request):
        seen.append(request)
        return chart

    chart = scaling.compute(opened.request)
    monkeypatch.setattr(scaling, "compute", compute)
    wanted = ("--preprocessing", "library", "--translator", "a", "b", "--queries", 7, "--seed", 3)
    ran = called("scaling", "--out", tmp_path / "one.json", "--device", "cpu", *wanted)
    assert ran.exit_code == 0, ran.output
    (request,) = seen
    choices = request.choices
    assert (choices.preprocessing, choices.translator) == ("library", ("a", "b"))
    assert (choices.queries, choices.device, request.seed) == (7, "cpu", 3)


def test_a_benchmark_on_disk_says_what_it_needs(tmp_path):
    ran = called("scaling", "--benchmark", "audioset-o-video", "--out", tmp_path / "one.json")
    assert ran.exit_code == 2
    assert "--model" in ran.output
