"""What holds for every analysis: plain numbers, one verdict, the same again, a picture."""

import dataclasses
import json
import sys
from importlib.resources import files

import pytest

from queryshift.errors import BadInput, UnknownName
from queryshift.lab.figures import FIGURES
from queryshift.lab.figures.charts import KINDS, from_json, to_json


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_numbers_that_survive_a_file(name, chart_of):
    chart = chart_of(name)
    assert type(chart) in KINDS.values()
    text = to_json(chart)
    assert to_json(from_json(text)) == text
    assert "NaN" not in text and "Infinity" not in text


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_says_what_it_shows_and_whether_the_claim_holds(name, chart_of):
    chart = chart_of(name)
    assert chart.title.endswith("?") and chart.claim.endswith(".") and chart.finding.endswith(".")
    assert type(chart.holds) is bool
    assert (" Yes: " if chart.holds else " No: ") in chart.verdict
    assert any(digit in chart.finding for digit in "0123456789")
    assert "24 queries" in chart.about


@pytest.mark.parametrize("name", ["scaling", "offset", "consistency", "stream", "angles"])
def test_the_same_request_gives_the_same_numbers(name, opened, chart_of):
    assert to_json(FIGURES[name](opened.request)) == to_json(chart_of(name))


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_can_be_drawn(name, chart_of, tmp_path):
    pytest.importorskip("matplotlib")
    from queryshift.lab.figures.plotting import draw

    draw(chart_of(name), tmp_path / "one.svg")
    drawn = (tmp_path / "one.svg").read_text()
    assert drawn.count("<path") > 20
    assert len(drawn) > 10_000


def test_every_analysis_has_a_file_and_a_name():
    names = {
        path.name.removesuffix(".py")
        for path in files("queryshift.lab.figures").iterdir()
        if path.name.endswith(".py")
    }
    assert names - set(FIGURES) == {"__init__", "charts", "experiment", "plotting"}


def test_an_unknown_figure_is_named():
    with pytest.raises(UnknownName, match='did you mean "scaling"'):
        _ = FIGURES["scalling"]


def test_what_is_no_figure_file_is_refused_before_computing(tmp_path, opened):
    from queryshift.lab.figures import plotting

    for out in (tmp_path / "one.bmp", tmp_path / "missing" / "one.png"):
        with pytest.raises(BadInput, match=r"no format|no folder"):
            plotting.write_figure("scaling", opened.request, out)


def test_numbers_alone_need_no_matplotlib(tmp_path, opened, monkeypatch):
    from queryshift.lab.figures import plotting

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    chart, written = plotting.write_figure("scaling", opened.request, tmp_path / "one.json")
    assert written == [tmp_path / "one.json"]
    assert json.loads(written[0].read_text())["lines"][0]["y"] == [
        pytest.approx(value, rel=1e-5) for value in dataclasses.asdict(chart)["lines"][0]["y"]
    ]
    with pytest.raises(ImportError, match=r"queryshift\[figures\]"):
        plotting.write_figure("scaling", opened.request, tmp_path / "one.png")
