"""The page of figures says what the numbers beside the pictures say."""

from pathlib import Path

import pytest

from queryshift.lab.figures import FIGURES
from queryshift.lab.figures.charts import read

RESULTS = Path(__file__).parents[3] / "docs" / "results"
PAGE = (RESULTS / "figures.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_on_the_page_with_its_command_and_verdict(name):
    chart = read(RESULTS / "figures" / f"{name}.json")
    assert f"(figures/{name}.png)" in PAGE
    assert f"queryshift figure {name} " in PAGE
    assert f"**{'Yes' if chart.holds else 'No'}:** {chart.finding}" in PAGE


@pytest.mark.parametrize("name", FIGURES)
def test_pictures_are_small(name):
    picture = (RESULTS / "figures" / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 150_000
