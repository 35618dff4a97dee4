"""The page for people with the real data: all tables, working commands, the paper's averages."""

import re
import shlex
from pathlib import Path

import click
import pytest

from queryshift.cli import main
from queryshift.lab.evaluation import paper
from queryshift.lab.evaluation.benchmarks import find
from queryshift.methods.specs import canonical

PAGE = (
    (Path(__file__).parents[1] / "docs" / "results" / "README.md")
    .read_text(encoding="utf-8")
    .split("\n## The paper's tables\n")[1]
)
SHORT = "-m all --check-base --out runs"
ROWS = {
    match[1]: match
    for match in re.finditer(r"^\| `([\w-]+)`.*?\| (.*) \| ([\d.]*) ?\| ([\d.]*) ?\|$", PAGE, re.M)
}
COMMANDS = re.findall(r"`queryshift (run [^`]+)`", PAGE)


def test_every_table_of_the_paper_has_a_row():
    assert set(ROWS) == set(paper.TABLES)


@pytest.mark.parametrize("line", COMMANDS)
def test_its_commands_are_understood(line):
    words = shlex.split(re.sub(r"\bM\b", SHORT, line))
    command = main.get_command(click.Context(main), words[0])
    given = command.make_context(words[0], words[1:], resilient_parsing=False).params
    assert find(given["benchmark"])
    for method in given["methods"]:
        assert method == "all" or canonical(method)


@pytest.mark.parametrize("name", paper.TABLES)
def test_its_numbers_are_the_papers(name):
    for method, shown in (("frozen", ROWS[name][3]), ("rest", ROWS[name][4])):
        rows = [row for row in paper.table(name).rows if row.label == method]
        expected = f"{rows[0].average:g}" if rows and rows[0].average else ""
        assert shown in (expected, f"{expected}.0")
