"""The bar of everything that takes longer than two seconds: when it shows, and what."""

import io

import pytest

from queryshift.support import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def on_a_terminal(monkeypatch):
    """Call it in the test: before, standard error is still pytest's."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    def shown(patience=progress.PATIENCE_S):
        found = Terminal()
        monkeypatch.setattr("sys.stderr", found)
        monkeypatch.setattr(progress, "PATIENCE_S", patience)
        return found

    return shown


def test_what_is_quick_shows_nothing(on_a_terminal):
    terminal = on_a_terminal()
    assert list(progress.track(range(3), "looking")) == [0, 1, 2]
    assert terminal.getvalue() == ""


def test_what_takes_long_shows_how_much_is_done_and_the_time_left(on_a_terminal):
    terminal = on_a_terminal(patience=-1.0)
    assert list(progress.track(range(3), "looking")) == [0, 1, 2]
    told = terminal.getvalue()
    assert "looking" in told and "3/3" in told and "0:00:00" in told and "left" in told


def test_a_count_shows_at_once(on_a_terminal):
    terminal = on_a_terminal()
    with progress.counting("asking", 7) as more:
        more(7)
    assert "asking" in terminal.getvalue() and "7/7" in terminal.getvalue()


def test_without_a_terminal_nothing_is_shown(monkeypatch):
    quiet = io.StringIO()
    monkeypatch.setattr("sys.stderr", quiet)
    monkeypatch.setattr(progress, "PATIENCE_S", -1.0)
    with progress.counting("asking", 7) as more:
        more(len(list(progress.track(range(7), "looking"))))
    assert quiet.getvalue() == ""


def test_lines_say_how_long_the_rest_takes(monkeypatch, capsys):
    seconds = iter([0.0, 60.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds, 60.0))
    token = progress.IN_LINES.set(True)
    with progress.counting("encoding", 1_000) as more:
        more(100)
    progress.IN_LINES.reset(token)
    assert capsys.readouterr().err == "encoding: 100 of 1,000, 0:09:00 left\n"


def test_lines_end_with_the_last_count(monkeypatch, capsys):
    seconds = iter([0.0, 60.0, 60.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds, 61.0))
    token = progress.IN_LINES.set(True)
    assert len(list(progress.track(range(4), "replaying"))) == 4
    progress.IN_LINES.reset(token)
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("replaying: 1 of 4") and told[-1] == "replaying: 4 of 4"
