"""CITATION.cff says what pyproject.toml says."""

import tomllib
from pathlib import Path

import yaml

import queryshift

ROOT = Path(__file__).parents[1]


def test_version_and_licence_are_the_projects():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cited["version"] == project["version"] == queryshift.__version__
    assert (cited["title"], cited["license"]) == (project["name"], project["license"])
    assert [one["year"] for one in cited["references"]] == [2025, 2025]
