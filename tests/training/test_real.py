"""The measurement on real sets: rows by name, runs that go on, and the page made from them."""

import csv
import json
import shutil

import numpy as np
import pytest
from training.real import measure, other_scripts, pages, rates
from training.real.advice import meaning
from training.real.measure import Row

from queryshift.errors import UnknownName
from queryshift.lab.datasets import DATASETS
from queryshift.lab.evaluation.results import Cell, read_folder
from queryshift.models import load
from small_datasets import small

RULE = "rate not times the uncertainty"
METHODS = ("frozen", "frozen+hubs", "vectors", "default", RULE, "bm25", "spelling+bm25+frozen")


def test_a_row_says_what_answers():
    assert Row.read("bm25") == Row(spelled=False, lexical=True, method="")
    assert Row.read("spelling+bm25+frozen+hubs") == Row(True, True, "frozen+hubs")
    assert Row.read("bm25+default") == Row(False, True, "default")
    assert [Row.read(name).by_vectors for name in METHODS] == [*[True] * 3, *[False] * 3, True]
    with pytest.raises(UnknownName, match="spelling"):
        Row.read("bm25+spelling+frozen")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    return small.aws(folder / "aws"), folder / "runs"


def command(monkeypatch, capsys, runs, *more):
    words = ("aws", "--model", "small=tangram", "--root", runs[0], "--out", runs[1], *more)
    monkeypatch.setattr("sys.argv", ["measure", *map(str, words)])
    measure.main()
    return capsys.readouterr().out


def test_every_row_runs_and_nothing_runs_twice(monkeypatch, capsys, runs):
    told = command(monkeypatch, capsys, runs, "--only", "aws-typos", "--methods", *METHODS)
    assert told.count(" s\n") == 2 * len(METHODS)  # 10 % and 25 %
    cells = read_folder(runs[1]).cells
    assert {(cell.severity, cell.method) for cell in cells} == {
        (severity, method) for severity in (2, 5) for method in METHODS
    }
    frozen = {cell.severity: cell for cell in cells if cell.method == "frozen"}
    assert frozen[2].settings["content"] == frozen[5].settings["content"]
    again = command(monkeypatch, capsys, runs, "--only", "aws-typos", "--methods", *METHODS, "shot")
    assert again.count(" s\n") == again.count("shot 0:") == 2


def test_some_of_the_queries_can_be_asked(monkeypatch, capsys, runs, tmp_path):
    whole = DATASETS["aws"](runs[0], part="test-zipf")
    more = ("--only", "zipf", "--queries", 1, "--methods", "frozen")
    command(monkeypatch, capsys, (runs[0], tmp_path), *more)
    (cell,) = read_folder(tmp_path).cells
    assert len(whole) == 2 and len(cell.ranks) == cell.settings["queries"] == 1
    assert cell.candidates == len(whole.candidates)


def test_repeated_queries_are_one_in_intervals(monkeypatch, capsys, runs):
    command(monkeypatch, capsys, runs, "--only", "zipf", "--methods", "frozen")
    (cell,) = (cell for cell in read_folder(runs[1]).cells if cell.benchmark == "aws-zipf")
    queries = list(DATASETS["aws"](runs[0], part="test-zipf").queries)
    assert len(set(queries)) == 1  # both draws hit the same one
    assert cell.settings["groups"] == [0, 0]


def cell(method, hits, benchmark="aws-clean", **more):
    ranks = np.where(np.asarray(hits), 1, 60)
    given = {"shift": "", "severity": 0, "protocol": "online", "seed": 0, "model": "m", **more}
    return Cell(benchmark=benchmark, method=method, ranks=ranks, candidates=99, **given)


RIGHT = np.arange(400) % 4 == 0  # a quarter
BETTER, WORSE = np.arange(400) % 2 == 0, np.arange(400) % 8 == 0


def page(cells):
    return pages.page(streams(cells))


def streams(cells):
    return [one for series in pages.SERIES for one in pages.streams(cells, series)]


def test_the_page_shows_losses_first():
    cells = [cell("frozen", RIGHT), cell("rest:lr=0.001", BETTER), cell("default", WORSE)]
    text = page(cells)
    lost = text.split("## Losses first")[1].split("##")[0]
    assert "| AWS | m | clean | `default` | `frozen` | **-12.5** (" in lost
    assert "**Do not turn it on for queries without typos**" in text.split("## Losses")[0]
    assert "-12.5 points" in text.split("## Losses")[0]
    assert "| m | rest | 50.0 |" in text
    assert "| AWS | `rest` | 1 | 0 | 0 | 1 | -37.5 |" in lost


def test_gains_are_no_losses():
    cells = [cell("frozen", RIGHT), cell("default", BETTER), cell("frozen+hubs", BETTER)]
    some = streams(cells)
    assert pages.losses(some) == "None in what was run."
    (said,) = meaning(some).splitlines()
    assert said.startswith("- **Turn it on for queries without typos**")
    assert "is +25.0 points" in said and "(beyond chance above it in 1, below it in 0)" in said
    assert said.endswith(
        "hub correction alone, which works without access to the encoder, has +25.0."
    )


def test_vectors_are_left_out_where_they_are_hub_correction():
    cells = [cell("frozen", RIGHT), cell("frozen+hubs", BETTER), cell("vectors", BETTER)]
    assert "vectors" not in pages.recalls(streams(cells))
    assert "| m | vectors | 25.0 |" in pages.recalls(streams([*cells[:2], cell("vectors", RIGHT)]))


def test_images_and_audio_are_counted_apart():
    shifts = {"clean": ("esc50-clean", WORSE), "rain": ("esc50-noisy", BETTER)}
    cells = [
        cell(name, hits, benchmark, shift="" if shift == "clean" else shift)
        for shift, (benchmark, ours) in shifts.items()
        for name, hits in (("frozen", RIGHT), ("default", ours))
    ]
    (said,) = meaning(streams(cells)).splitlines()
    assert "in 1 of 1 shifted stream, below it in 0" in said
    assert "in 0 of 1 clean stream, below it in 1" in said


def test_ndcg_is_told_in_a_sentence():
    cells = [cell("frozen", RIGHT), cell("default", BETTER)]
    assert "+25.0 points against the encoder alone (1, 0); in" in pages.by_ndcg(streams(cells))
    assert pages.by_ndcg(streams(cells[:1])) == pages.NOT_RUN


def test_only_differences_beyond_chance_are_bold():
    cells = [cell("frozen", RIGHT), cell("default", BETTER), cell("frozen+hubs", BETTER)]
    (row,) = (line for line in pages.differences(streams(cells)).splitlines() if "| m |" in line)
    assert "**+25.0** (" in row and "| +0.0 (+0.0 to +0.0) |" in row


def test_without_ours_the_page_says_so():
    text = page([cell("frozen", RIGHT), cell("bm25", WORSE)])
    assert "Our default was not run." in text and "Turn it on" not in text
    assert text.count("Not run.") > 2
    assert "| none | bm25 | 12.5 |" in text and "| m | frozen | 25.0 |" in text


def test_repetitions_are_drawn_together_and_each_counts():
    groups = {"groups": [0] * 300 + list(range(1, 101))}
    popular = np.arange(400) < 300  # one query that is three quarters of the traffic
    cells = [cell("frozen", ~popular, settings=groups), cell("vectors", popular, settings=groups)]
    found = streams(cells)[0].difference("vectors", "frozen")
    assert found.points == 50.0 and not found.beyond_chance  # 300 gained, 100 lost; but one query
    alone = [cell("frozen", ~popular), cell("vectors", popular)]
    assert streams(alone)[0].difference("vectors", "frozen").beyond_chance


def test_rows_are_compared_over_the_seeds_that_all_have():
    cells = [cell("frozen", RIGHT), cell("default", BETTER), cell("frozen", WORSE, seed=1)]
    found = streams(cells)[0].difference("default", "frozen")
    assert found.points == 25.0


def test_every_two_rows_are_in_the_csv_for_both_metrics():
    cells = [cell("default", BETTER), cell("frozen", RIGHT), cell("bm25", WORSE)]
    lines = pages.all_differences(streams(cells)).splitlines()
    assert len(lines) == 1 + 2 * 3
    (first,) = (line for line in lines if line.startswith("aws,m,clean,default,frozen,recall@1,"))
    assert first.split(",")[6] == "25.00" and first.endswith(",yes")


def test_a_table_of_differences_says_how_many_queries_were_asked():
    text = pages.differences(streams([cell("frozen", RIGHT), cell("default", BETTER)]))
    assert "| m | clean | 400 | **+25.0** (" in text


def test_rates_are_means_over_development_streams(tmp_path):
    dev = [
        cell("rest:lr=0.001", hits, benchmark=name)
        for name, hits in (("aws-dev-clean", RIGHT), ("aws-dev-chatty", BETTER))
    ]
    assert "aws,m,rest,0.001,37.50" in pages.all_rates(dev, tmp_path)
    own = {"image": {"shot": {"0.01": 4, "0.001": 5}}}
    (tmp_path / pages.PHOTOGRAPH_RATES).write_text(json.dumps(own), encoding="utf-8")
    lines = pages.all_rates([], tmp_path).splitlines()
    head = "flickr8k-image,photographs,shot"
    assert lines[1:] == [f"{head},0.001,5.00", f"{head},0.01,4.00"]


def test_cells_are_kept_beside_those_kept_before(monkeypatch, capsys, runs, tmp_path):
    command(monkeypatch, capsys, runs, "--only", "aws-typos", "--methods", *METHODS)
    first = pages.keep([runs[1]], tmp_path)
    again = pages.keep([], tmp_path)
    assert len(first) == len(again) > 10
    assert {one.key for one in first} == {one.key for one in again}
    assert (tmp_path / "small-aws-typos.jsonl.gz").exists()


def test_what_correcting_the_spelling_gives_is_said_beside_ours():
    typed = {"benchmark": "aws-typos", "shift": "typos", "severity": 2}
    rows = {"frozen": WORSE, "default": RIGHT, "spelling+frozen": BETTER}
    text = meaning(streams([cell(name, hits, **typed) for name, hits in rows.items()]))
    (said,) = text.splitlines()
    assert "the encoder alone finds 12.5 %, the default session 25.0 %" in said
    assert said.endswith("spelling correction and the encoder 50.0 %.")


def test_every_row_answers_misspelt_words_of_other_scripts():
    words = ["красный", "зелёный", "κόκκινο", "πράσινο", "größer", "weiß"]
    found = other_scripts.recalls(load("tangram")["text"], words)
    assert len(found) == 5 and all(0 <= value <= 100 for value in found.values())
    assert found["spelling+frozen"] >= found["frozen"]


def test_rates_come_from_the_development_streams(monkeypatch, capsys, runs):
    monkeypatch.setattr(rates, "TRIED", (0.01, 0.1))
    monkeypatch.setattr(rates, "STREAMS", ("clean",))
    methods = ("--only", "clean", "--methods", "shot:lr=dev", "frozen")
    told = command(monkeypatch, capsys, runs, *methods).splitlines()
    assert [line.split(":")[0] for line in told[:1]] == ["small aws-clean  0 frozen 0"]
    assert ["aws-dev-clean" in line for line in told] == [False, True, True, False]
    measured = {line.split()[3]: float(line.split()[5][:-1]) for line in told[1:3]}
    assert told[3].split()[3] == max(measured, key=measured.get)
    assert not command(monkeypatch, capsys, runs, *methods)


def test_the_page_is_what_the_kept_cells_give(tmp_path):
    kept = shutil.copytree(pages.RESULTS / "real", tmp_path / "real")
    cells = pages.keep([], kept)
    some = [stream for series in pages.SERIES for stream in pages.streams(cells, series)]
    assert pages.page(some) == (pages.RESULTS / "real.md").read_text(encoding="utf-8")
    for name, made in (
        (pages.FIGURES, pages.all_figures(some)),
        (pages.RATES, pages.all_rates(cells, kept)),
    ):
        assert made == (kept / name).read_text(encoding="utf-8")


def test_what_the_page_says_of_pacs_and_esc50_holds():
    with (pages.RESULTS / "real" / pages.DIFFERENCES).open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "recall@1"]
    found = {
        (row["set"], row["stream"], row["row"], row["against"]): (
            float(row["points"]) > 0,
            row["beyond chance"] == "yes",
        )
        for row in rows
    }
    for kind in ("art painting", "cartoon", "sketch"):
        assert found["pacs", kind, "default", "frozen"] == (True, True)
        assert found["pacs", kind, "default", "frozen+hubs"] == (True, True)
        assert found["pacs", kind, "rest", "default"] == (False, True)
        assert found["pacs", kind, "shot", "default"][1] == (kind != "cartoon")
        assert found["pacs", kind, "tcr", "default"][1] == (kind != "art painting")
    assert not found["pacs", "sketch", "shot", "default"][0]
    assert not found["pacs", "art painting", "shot", "default"][0]
    assert found["pacs", "photo", "default", "frozen"] == (False, True)
    assert not found["esc50", "clean", "default", "frozen"][1]
    assert not found["esc50", "clean", "default", "frozen+hubs"][1]
    others = ("rest", "tcr", "shot")
    assert all(found["esc50", "clean", row, "default"] == (True, True) for row in others)
    for noise in ("traffic", "wind", "thunder", "rain", "crowd", "gaussian noise"):
        above_hubs = found["esc50", noise, "default", "frozen+hubs"] == (True, True)
        assert above_hubs == (noise in ("gaussian noise", "rain"))
        assert above_hubs == found["esc50", noise, "default", "frozen+hubs"][1]
        assert found["esc50", noise, "default", "frozen"] == (True, True)
        assert all(found["esc50", noise, row, "default"] == (False, True) for row in others)


def test_what_the_page_says_of_misspelt_queries_on_ms_marco_holds():
    with (pages.RESULTS / "real" / pages.DIFFERENCES).open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "ndcg@10"]
    found = {
        (row["model"], row["row"], row["against"]): row
        for row in rows
        if (row["set"], row["stream"]) == ("msmarco", "typos")
    }
    hubs = [found[model, "frozen+hubs", "frozen"] for model in ("gte-small", "minilm", "mpnet")]
    assert all(row["beyond chance"] == "yes" for row in hubs)
    assert [round(float(row["points"])) for row in hubs] == [-8, -12, -15]
    for model in ("minilm", "mpnet"):
        default = found[model, "default", "frozen"]
        assert (default["beyond chance"], -6 < float(default["points"]) < -5) == ("yes", True)
    for model in ("gte-small", "minilm", "mpnet"):
        best = float(found[model, "spelling+frozen", "frozen"]["points"])
        methods = ("default", "rest", "tcr", "shot")
        assert best > max(float(found[model, row, "frozen"]["points"]) for row in methods)
        assert best - float(found[model, "spelling+default", "frozen"]["points"]) < 3
