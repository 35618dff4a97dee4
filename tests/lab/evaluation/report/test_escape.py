"""Labels from a result file are text in every format, whatever they hold."""

import csv
import io

import pytest
from made_cells import cell

from queryshift.lab.evaluation.report import FORMATS, Options, render, report

HOSTILE = (
    "[/]",
    "\x1b[31mred",
    "a|b **bold** <script>alert(1)</script>",
    "\\input{/etc/passwd}",
    '=HYPERLINK("http://example.org")',
    "two\nlines",
)


def made(label, form):
    cells = [cell("frozen", "fog"), cell("rest", "fog", label=label)]
    return render(report(cells, Options(resamples=0)), form)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("label", HOSTILE)
def test_no_label_stops_a_report_or_passes_control_characters(label, form):
    text = made(label, form)
    assert "\x1b" not in text
    assert "fog" in text


def test_markup_is_shown_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert "[/]" in made("[/]", "terminal") and r"\x1b[31mred" in made("\x1b[31mred", "terminal")


def test_markdown_keeps_its_columns_and_no_html():
    text = made(HOSTILE[2], "markdown")
    (row,) = (line for line in text.splitlines() if "bold" in line)
    assert row.startswith(r"| a\|b \*\*bold\*\* &lt;script>") and row.count(" | ") == 2
    assert "| fog | average |" in text and made("two_words", "markdown").count("two_words") == 1


def test_latex_gets_no_command():
    assert r"\input" not in made(HOSTILE[3], "latex")
    assert r"\textbackslash{}input\{/etc/passwd\}" in made(HOSTILE[3], "latex")


def test_a_spreadsheet_gets_no_formula():
    (row, _) = (
        row
        for row in csv.DictReader(io.StringIO(made(HOSTILE[4], "csv")))
        if "HYPERLINK" in row["method"]
    )
    assert row["method"].startswith("'=")
