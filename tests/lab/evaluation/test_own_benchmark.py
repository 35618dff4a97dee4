"""A benchmark of one's own, which `queryshift run` takes by its path."""

import json

import pytest
from click.testing import CliRunner

from queryshift.cli import main
from queryshift.errors import BadFile, UnknownName
from queryshift.lab import tangram
from queryshift.lab.evaluation.benchmarks import find

ROW = """
name = "shop"
model = "tangram"
gallery = "products.jsonl"
queries = "log.jsonl"
shifts = ["ocr", "character_insert"]
severities = [2]
columns = { id = "sku" }
"""


@pytest.fixture
def shop(tmp_path):
    texts = [tangram.captions(scene)[:2] for scene in tangram.scenes("dev", 12)]
    products = [{"sku": f"p{row}", "title": both[0]} for row, both in enumerate(texts)]
    (tmp_path / "products.jsonl").write_text("\n".join(map(json.dumps, products)))
    asked = [{"query": both[1], "clicked": f"p{row}"} for row, both in enumerate(texts)]
    asked.append({"query": "gone", "clicked": "deleted"})
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, asked)))
    (tmp_path / "shop.toml").write_text(ROW)
    return tmp_path / "shop.toml"


def test_the_runner_takes_it_by_path_and_keeps_its_cells(shop, tmp_path):
    command = ["run", str(shop), "-m", "frozen", "--out", str(tmp_path / "runs"), "--json"]
    ran = CliRunner().invoke(main, command)
    assert ran.exit_code == 0, ran.output
    cells = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [(cell["benchmark"], cell["shift"]) for cell in cells] == [
        ("shop", "ocr"),
        ("shop", "character_insert"),
    ]
    assert all((cell["queries"], cell["candidates"]) == (12, 12) for cell in cells)
    reported = CliRunner().invoke(main, ["report", str(tmp_path / "runs")])
    assert reported.exit_code == 0 and "shop" in reported.output


def test_without_shifts_the_queries_stay_as_they_are(shop):
    shop.write_text(ROW.replace('shifts = ["ocr", "character_insert"]', ""))
    (row,) = find(str(shop))
    assert not row.corrupted and (row.query, row.gallery) == ("text", "text")


def test_mistakes_in_the_file_are_named(shop):
    shop.write_text(ROW + 'galery = "x"\n')
    with pytest.raises(UnknownName, match='"galery"; did you mean "gallery"'):
        find(str(shop))
    shop.write_text(ROW.replace("ocr", "orc"))
    with pytest.raises(UnknownName, match='no text corruption "orc"'):
        find(str(shop))
    shop.write_text('gallery = "products.jsonl"\n')
    with pytest.raises(BadFile, match="names no queries"):
        find(str(shop))
    shop.write_text("gallery =\n")
    with pytest.raises(BadFile, match="cannot be read as TOML"):
        find(str(shop))
