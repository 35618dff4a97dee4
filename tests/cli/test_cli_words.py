"""What every command has in common: names, exit codes, progress and warnings."""

import io
import subprocess
import sys
import warnings

import pytest
from click.testing import CliRunner

from queryshift.cli import COMMANDS, main
from queryshift.errors import unknown
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.support import progress


def ask(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_a_mistyped_command_is_met_with_the_nearest():
    told = ask("dmo")
    assert told.exit_code == 2 and 'no command "dmo"; did you mean "demo"?' in told.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["figure", "severty"], 'no figure "severty"; did you mean "severity"?'),
        (["list", "modls"], 'no list "modls"; did you mean "models"'),
        (["data", "check", "cocoo"], 'no dataset "cocoo"; did you mean "coco"?'),
        (["data", "chek"], 'no command "chek"; did you mean "check"? Known: check, frames.'),
        (["gallery", "biuld"], 'no command "biuld"; did you mean "build"? Known: build, check.'),
        (["models", "show"], 'no command "show". Known: check.'),
        (["corrupt", "fog"], 'no command "fog". Known: again, audio, image, sheet, text, video.'),
        (["demo", "--task", "imgae"], 'no task "imgae"; did you mean "image"?'),
    ],
    ids=lambda words: words[0],
)
def test_a_mistyped_word_is_met_with_the_nearest(words, said):
    told = ask(*words)
    assert told.exit_code == 2 and said in told.output


def test_a_long_table_is_not_printed_for_a_mistyped_name():
    told = ask("run", "tangram-o-imgae")
    assert told.exit_code == 2
    assert 'did you mean "tangram-o-image"' in told.output and "a TOML file" in told.output
    assert sum(name in told.output for name in BENCHMARKS) <= 3


def test_a_name_that_is_like_none_shows_three_and_counts_the_rest():
    names = [f"name {at}" for at in range(50)]
    assert str(unknown("thing", "xyzzy", names)) == (
        'no thing "xyzzy"; there are "name 0", "name 1", "name 2" and 47 others.'
    )


@pytest.mark.parametrize(
    "words",
    [
        ("run", "nothing"),
        ("run", "tangram-o-image", "--severity", "9"),
        ("run", "tangram-o-image", "--seeds", "0"),
        ("demo", "--task", "smell"),
        ("demo", "--shift", "smoke"),
        ("demo", "--severity", "9"),
        ("corrupt", "image", "fgo", "in", "out"),
        ("figure", "scaling", "--benchmark", "nothing"),
        ("models", "check", "clip-bas"),
        ("dmo",),
    ],
)
def test_wrong_values_end_every_command_alike(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = ask(*words)
    assert told.exit_code == 2 and "Traceback" not in told.output


def test_rerank_alone_switches_nothing_on(tmp_path):
    told = ask("run", "tangram-o-image", "--rerank", "4", "--out", tmp_path)
    assert told.exit_code == 2 and "--matcher" in told.output


def test_a_pipe_is_told_how_far_it_is(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    token = progress.IN_LINES.set(True)
    list(progress.track(range(2), "looking"))
    with progress.counting("asking", 1_200) as more:
        more(64)
    progress.IN_LINES.reset(token)
    assert log.getvalue() == "looking: 1 of 2\nlooking: 2 of 2\nasking: 64 of 1,200\n"


def test_commands_write_progress_lines(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "queryshift.cli.list.aligned", lambda rows: seen.append(progress.IN_LINES.get()) or []
    )
    assert ask("list", "methods").exit_code == 0
    assert seen == [True] and not progress.IN_LINES.get()


def test_a_warning_is_a_sentence_without_a_file(monkeypatch):
    def warned(rows):
        warnings.warn("this is slow.", UserWarning, stacklevel=1)
        return []

    monkeypatch.setattr("queryshift.cli.list.aligned", warned)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        told = ask("list", "methods")
    assert told.stderr == "Warning: this is slow.\n"


def test_every_command_is_spelled_as_python_runs_it():
    ran = subprocess.run(
        [sys.executable, "-c", "from queryshift.cli import main; main()", "--help"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0 and all(name in ran.stdout for name in COMMANDS)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (True, "finished methods are in results.jsonl: run the same command again to continue."),
        (False, "Stopped before the first method was finished."),
    ],
)
def test_an_interrupted_evaluation_says_what_is_kept(kept, said, tmp_path, monkeypatch):
    def interrupted(**given):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("queryshift.lab.own_traffic.evaluate.evaluate", interrupted)
    if kept:
        (tmp_path / "results.jsonl").touch()
    files = ["--gallery", "g.npy", "--queries", "q.npy", "--results", "results.jsonl"]
    told = ask("evaluate", *files)
    assert told.exit_code == 130 and said in told.output


def test_any_interrupted_command_ends_with_one_word_and_the_usual_exit_code(monkeypatch):
    def interrupted(plan):
        raise KeyboardInterrupt

    monkeypatch.setattr("queryshift.lab.demo.run_demo.demonstrate", interrupted)
    told = ask("demo", "--quick")
    assert told.exit_code == 130 and told.output.endswith("Stopped.\n")
