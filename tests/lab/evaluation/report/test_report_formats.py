"""Every format says the same: the numbers, what stands out, the legend, the notes."""

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from made_cells import cell, table_of

from queryshift.errors import BadInput, UnknownName
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.report import FORMATS, Options, render, report, report_folder
from queryshift.lab.evaluation.results import write_line

CELLS = [
    one
    for seed in (0, 1)
    for one in table_of(
        {"frozen": (50, 40 + seed), "tent": (20, 10), "rest": (80, 70)},
        ("zoom_blur", "jpeg"),
        seed=seed,
    )
]
TESTED = Options(resamples=2000)
BESIDE = Options(resamples=0, paper=True, any_size=True)


@pytest.fixture(autouse=True)
def window(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_has_every_number(form):
    text = render(report(CELLS, TESTED), form)
    for number in ("80.0", "70.0", "75.0", "20.0", "40.5"):
        assert number in text
    for word in ("frozen", "tent", "rest", "average"):
        assert word in text


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "csv"])
def test_every_format_for_people_explains_itself(form):
    text = render(report(CELLS, TESTED), form).replace("\n", " ")
    assert "standard deviation over seeds" in text
    assert "better than the runner-up" in text
    assert "2,000 resamples" in text


@pytest.mark.parametrize(("metric", "percent"), [("recall@5", True), ("mean_rank", False)])
def test_only_percentages_are_called_so(metric, percent):
    text = render(report(CELLS, Options(resamples=0, metric=metric)), "terminal")
    assert ("Numbers are percentages." in text) is percent


def test_markdown():
    text = render(report(CELLS, TESTED), "markdown")
    assert "### coco-o-image, severity 5: recall@1 (200 queries, 1,000 candidates)" in text
    assert "| method | zoom_blur | jpeg | average |\n| --- | --: | --: | --: |" in text
    assert r"| rest | **80.0**\*† ± 0.0 | **70.0**\*† ± 0.0 |" in text
    assert "| <u>50.0</u> ± 0.0 | <u>40.5</u> ± 0.7 |" in text


def test_latex_is_balanced_and_escaped():
    text = render(report(CELLS, TESTED), "latex")
    assert r"zoom\_blur" in text
    assert r"\textbf{80.0}$^{*\dagger}$ $\pm$ 0.0" in text
    assert r"\underline{50.0}" in text
    assert r"$^{\downarrow}$" in text
    assert text.count("{") == text.count("}")
    assert text.count(r"\begin{") == text.count(r"\end{") == 2
    assert text.isascii()


def test_csv_has_a_line_per_number():
    text = render(report(CELLS, Options(resamples=2000, paper=True, any_size=True)), "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 3 * 3
    (one,) = (row for row in rows if row["method"] == "rest" and row["shift"] == "zoom_blur")
    assert one["mean"] == "80.0"
    assert one["seeds"] == "2"
    assert one["place"] == "1"
    assert one["marks"] == "better than the frozen model; better than the runner-up"
    assert (one["paper"], one["difference"]) == ("37.7", "42.3")


def test_a_terminal_that_is_narrow_gets_several_tables(monkeypatch):
    wide = render(report(CELLS, TESTED), "terminal")
    assert wide.count("zoom_blur") == 1
    for width, parts in ((31, 2), (30, 3)):
        monkeypatch.setenv("COLUMNS", str(width))
        narrow = render(report(CELLS, TESTED), "terminal")
        assert narrow.count("zoom_blur") == parts
        assert "…" not in narrow


def test_a_narrow_terminal_keeps_the_paper_beside_its_method(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    text = render(report(CELLS, BESIDE), "terminal")
    for method in ("frozen", "tent", "rest"):
        assert re.search(rf"{method} +paper +diff", text)


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.addresses = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else():
    cells = [*CELLS, cell(severity=3)]
    page = _Page()
    page.feed(render(report(cells, Options(resamples=0, paper=True, any_size=True)), "html"))
    assert page.open == []
    assert page.addresses == ["#t1", "#t2"]
    assert not {"script", "link", "img"} & set(page.seen)
    assert page.seen.count("table") == 2


def test_the_page_tints_gains_and_losses():
    text = render(report(CELLS, TESTED), "html")
    assert '<td class="best" style="background: rgba(var(--gain), 0.54)"><span>80.0</span>' in text
    assert "var(--loss), 0.55" in text
    without = render(report([one for one in CELLS if one.method != "frozen"], TESTED), "html")
    assert "Green:" not in without


def test_the_page_escapes_names():
    text = render(report([cell(label="<b>mine</b>"), cell()], TESTED), "html")
    assert "<b>mine" not in text
    assert "&lt;b&gt;mine" in text


def test_the_paper_beside_ours():
    text = render(report(CELLS, BESIDE), "markdown")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rest = next(at for at, line in enumerate(lines) if line.startswith("| rest"))
    assert lines[rest + 1] == "| *paper* | *37.7* | *68.8* | *53.2* |"
    assert lines[rest + 2] == "| *diff* | *+42.3* | *+1.2* | *+21.8* |"


def test_the_papers_larger_model():
    made = report(
        CELLS, Options(resamples=0, paper=True, any_size=True, paper_model="BLIP ViT-L/16")
    )
    assert made.tables[0].rows["rest"][0].paper == 40.5


@pytest.mark.parametrize(
    ("model", "number", "like"),
    [
        ("blip-base-coco", 37.7, "BLIP ViT-B/16"),
        ("blip-large-coco", 40.5, "BLIP ViT-L/16"),
        ("large-files/model_base_retrieval_coco.pth", 37.7, "BLIP ViT-B/16"),
    ],
)
def test_the_papers_model_most_like_ours_is_taken_and_named(model, number, like):
    (table,) = report([cell("rest", "zoom_blur", model=model)], BESIDE).tables
    assert table.rows["rest"][0].paper == number
    assert table.notes == (f"The paper's numbers are of {like}.",)


def test_the_papers_ablations_are_beside_ours():
    specs = ("rest:decouple=false", "tent+decoupled")
    cells = [cell(spec, "", benchmark="coco-d-text", protocol="diverse") for spec in specs]
    (table,) = report(cells, BESIDE).tables
    assert [table.rows[spec][0].paper for spec in specs] == [40.6, 40.4]


def test_the_papers_average_is_as_printed_where_its_whole_row_is_there():
    shifts = BENCHMARKS["flickr-o-text"].shifts
    cells = [cell("pl", shift, benchmark="flickr-o-text") for shift in shifts]
    whole, fewer = (report(some, BESIDE).tables[0].rows["pl"] for some in (cells, cells[1:]))
    assert whole[-1].paper == 62.7  # the mean of the printed numbers is 62.63
    assert fewer[-1].paper == pytest.approx((15 * 62.63 - 56.6) / 14, abs=0.01)


@pytest.mark.parametrize(
    "cells", [[cell(benchmark="tangram-o-image")], [cell(severity=3)], [cell("tcr_untrained")]]
)
def test_what_the_paper_has_not_is_said(cells):
    made = report(cells, BESIDE)
    assert made.tables[0].notes == ("The paper has no number for these rows.",)


def test_other_metrics_are_not_put_beside_the_papers():
    made = report(CELLS, Options(resamples=0, paper=True, any_size=True, metric="recall@5"))
    assert made.tables[0].rows["rest"][0].paper is None


def test_seconds_stand_beside_the_papers_where_cells_say_them():
    natural = {"shift": "", "severity": 0, "benchmark": "general2coco-image"}
    took = {"tent": 10.0, "rest": 11.0, "frozen": 1.0, "eata": None}  # the paper has no frozen row
    cells = [cell(method, seconds=seconds, **natural) for method, seconds in took.items()]
    recalls, seconds = report(cells, BESIDE).tables
    assert set(recalls.rows) == set(took) and recalls.columns[0].metric == "recall@1"
    found = {
        label: (row[0].mean, row[0].paper, row[0].place) for label, row in seconds.rows.items()
    }
    assert found == {"tent": (10, 102, 1), "rest": (11, 101, 2)}
    assert "Machines differ" in seconds.notes[0]
    for form in FORMATS:
        assert "101" in render(report(cells, BESIDE), form)
    assert len(report(cells, TESTED).tables) == 1
    assert (
        len(
            report(cells, Options(resamples=0, paper=True, any_size=True, metric="recall@5")).tables
        )
        == 1
    )


def test_seconds_can_be_asked_for_of_any_benchmark():
    cells = [cell("tent", seconds=2.5), cell("rest", seconds=2.0)]
    (table,) = report(cells, Options(resamples=50, metric="seconds")).tables
    assert [row[0].place for row in table.rows.values()] == [2, 1]
    with pytest.raises(BadInput, match="coco-o-image, frozen, does not say its seconds"):
        report([*cells, cell()], Options(metric="seconds"))


def test_a_labelled_variant_is_put_beside_its_method():
    made = report([cell("rest", "zoom_blur", label="rest, slow")], BESIDE)
    assert made.tables[0].rows["rest, slow"][0].paper == 37.7


def test_several_versions_and_devices_are_told():
    other = cell("rest", versions={"queryshift": "0.2.0"}, device="cuda")
    assert report([cell(), other], TESTED).notes == (
        "Cells of several versions of queryshift: 0.1.0 (1 cells), 0.2.0 (1 cells).",
        "Cells of several devices: cpu (1 cells), cuda (1 cells).",
    )


def test_damaged_lines_are_told(tmp_path):
    write_line(tmp_path / "a.jsonl", cell())
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("{}\n")
    (note,) = report_folder(tmp_path, TESTED).notes
    assert "a.jsonl, line 2: not a finished cell (it has no 'ranks')" in note


def test_an_unknown_format_is_named():
    with pytest.raises(UnknownName, match='did you mean "markdown"'):
        render(report([cell()]), "markdwn")


def test_contents_are_a_list_and_marks_have_room():
    page = render(report([*CELLS, cell(severity=3)], TESTED), "html")
    assert page.count('<li><a href="#t') == 2
    assert "padding: .35rem 1.3rem" in page and "th:not(:first-child) { min-width" in page


def test_a_run_of_another_size_is_not_set_beside_the_paper():
    (table,) = report(CELLS, Options(resamples=0, paper=True)).tables
    assert {entry.paper for row in table.rows.values() for entry in row} == {None}
    assert (
        "The paper's numbers are left out: coco-o-image has 5,000 queries there and 200 here. "
        "--any-size shows them all the same."
    ) in table.notes


def test_columns_that_are_not_corrupted_as_published_are_marked():
    frost = replace(
        CELLS[0], shift="frost", settings={"not_as_published": ["drawn frost (--textures)"]}
    )
    text = render(report([frost, CELLS[0]], Options(resamples=0)), "markdown")
    assert "| frost‡ |" in text and "| zoom_blur‡ |" not in text
    assert "‡ not corrupted as published: drawn frost (--textures)." in text
