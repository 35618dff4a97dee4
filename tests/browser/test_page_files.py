"""The page's files: one palette with the project's, nothing from elsewhere, no HTML out of text."""

import re
from pathlib import Path

import pytest

import queryshift
from queryshift.lab.evaluation.pages.method_legend import COLOURS

FOLDER = Path(queryshift.__file__).parent / "serving" / "page"
FILES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.iterdir())}
SCRIPTS = [name for name in FILES if name.endswith(".js")]


def variables(css: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", css))


@pytest.mark.parametrize("method", ["frozen", "rest", "tcr", "tent"])
def test_colours_are_the_projects(method):
    light, dark = FILES["page.css"].split("prefers-color-scheme: dark", 1)
    assert variables(light)[method] == COLOURS[method].light
    assert variables(dark)[method] == COLOURS[method].dark


@pytest.mark.parametrize("name", FILES)
def test_nothing_comes_from_elsewhere(name):
    addresses = re.findall(r"(?:https?:)?//[\w.]+\.\w+[^\s\"')]*", FILES[name])
    assert set(addresses) <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_text_cannot_become_html_or_code(name):
    html = r"\.(?:innerHTML|outerHTML)\s*=[^=]|insertAdjacentHTML|document\.write"
    assert not re.findall(html + r"|\beval\(|Function\(", FILES[name])


def test_the_html_has_neither_scripts_nor_handlers_nor_styles_of_its_own():
    html = FILES["index.html"]
    assert not re.findall(r"\son\w+=|\sstyle=|javascript:|<style|<script(?![^>]* src=)", html)


def test_every_element_that_a_script_looks_for_is_there():
    ids = set(re.findall(r'\bid="([\w-]+)"', FILES["index.html"]))
    wanted = {id for name in SCRIPTS for id in re.findall(r'\$\("([\w-]+)"\)', FILES[name])}
    assert wanted and wanted <= ids


def test_every_field_has_a_label():
    html = FILES["index.html"]
    fields = re.findall(r'<(?:input|select) id="([\w-]+)"', html)
    for field in fields:
        inside = re.search(rf'<label[^>]*>[^<]*<(?:input|select) id="{field}"', html)
        assert inside or f'for="{field}"' in html, field
