"""`queryshift report` from the command line."""

from errno import ENOSPC

import pytest
from click.testing import CliRunner
from made_cells import cell, table_of

from queryshift.cli import main
from queryshift.cli.report import FORMATS as CHOICES
from queryshift.lab.evaluation.report import FORMATS
from queryshift.lab.evaluation.results import write_line


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    for one in table_of({"frozen": (50, 40), "rest": (80, 70)}, ("zoom_blur", "jpeg")):
        write_line(folder / "cells.jsonl", one)
    return folder


def call(*arguments):
    return CliRunner().invoke(main, ["report", *map(str, arguments)])


def test_the_choices_are_the_formats():
    assert tuple(FORMATS) == CHOICES


def test_a_table_on_the_terminal(runs):
    done = call(runs)
    assert done.exit_code == 0, done.output
    assert "zoom_blur" in done.output
    assert "* better than the frozen model" in done.output


def test_a_file(runs, tmp_path):
    page = tmp_path / "report.html"
    done = call(runs, "--format", "html", "--out", page)
    assert done.exit_code == 0, done.output
    assert page.read_text().startswith("<!doctype html>")
    assert done.output == f"{page}: {page.stat().st_size:,} bytes\n"


def test_a_metric_and_the_paper(runs):
    done = call(runs, "--format", "csv", "--metric", "recall@50", "--resamples", 0)
    assert "recall@50" in done.output
    done = call(runs, "--format", "markdown", "--paper-model", "BLIP ViT-L/16", "--any-size")
    assert "*40.5*" in done.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--metric", "ndcg"], 'no metric "ndcg"'),
        (["--paper-model", "CLIP"], 'no model of the paper "CLIP"'),
        (["--format", "pdf"], "'pdf' is not one of"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(runs, arguments, told):
    done = call(runs, *arguments)
    assert done.exit_code != 0
    assert told in done.output


def test_a_place_that_cannot_be_written_is_said_in_a_sentence(runs, tmp_path):
    done = call(runs, "--format", "html", "--out", tmp_path / "nowhere" / "report.html")
    assert done.exit_code == 1
    assert "report.html" in done.output and "No such file or directory." in done.output


def test_a_disk_that_is_full_is_said_in_a_sentence(runs, monkeypatch):
    def full(*given):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("queryshift.lab.evaluation.report.render", full)
    done = call(runs)
    assert (done.exit_code, done.output) == (1, "Error: No space left on device.\n")


def test_an_empty_folder(tmp_path):
    done = call(tmp_path)
    assert done.exit_code == 2
    assert "no finished cell in" in done.output


def test_a_single_file_will_do(tmp_path):
    write_line(tmp_path / "one.jsonl", cell())
    assert call(tmp_path / "one.jsonl").exit_code == 0
