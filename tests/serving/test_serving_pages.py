"""The service's pages say what the code says: fields of the file, metrics, and TOML that reads."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from test_serve_settings import meanings, models

from queryshift.serving.metrics import Metrics
from queryshift.serving.settings import ServeSettings, read_settings
from queryshift.sessions.guard import Guard

DOCS = Path(__file__).parents[2] / "docs"
SERVING = (DOCS / "serving.md").read_text(encoding="utf-8")
FIELDS = (DOCS / "serve-toml.md").read_text(encoding="utf-8")


def test_every_field_is_on_the_page_with_its_meaning():
    for kind in models(ServeSettings):
        for name, meaning in meanings(kind).items():
            row = re.compile(rf"^\| `{name}` \| .+ \| {re.escape(meaning)} \|$", re.M)
            assert row.search(FIELDS), f"{kind.__name__}.{name}"


def test_every_field_of_a_guard_is_on_the_page_with_its_default_and_meaning():
    for field in fields(Guard):
        row = f"| `{field.name}` | `{field.default}` | {field.metadata['about']} |"
        assert row in FIELDS or field.name == "reference", row


def test_every_metric_is_on_the_page():
    for family in Metrics().registry.collect():
        name = family.name.removeprefix("queryshift_")
        assert re.search(rf"`{name}(_total)?`", SERVING), name


@pytest.mark.parametrize("toml", re.findall(r"```toml\n(.*?)```", SERVING, re.S))
def test_its_settings_are_read(toml, tmp_path):
    file = tmp_path / "serve.toml"
    file.write_text(toml)
    assert read_settings(file)
