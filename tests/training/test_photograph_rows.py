"""Flickr8k's rows: the heads that a CPU trains, the rates, which cells run, and their tables."""

import csv
import json

import numpy as np
import pytest
import torch
from training.photographs import heads, rows
from training.real import pages

from queryshift.lab.evaluation.results import Cell, read_folder
from small_datasets import small


def test_heads_find_pairs_that_they_were_trained_on():
    torch.manual_seed(0)
    things = torch.randn(40, 30)
    seen = things @ torch.randn(30, heads.FEATURES)
    read = (things[:, None] + 0.1 * torch.randn(40, 5, 30)) @ torch.randn(30, heads.READ)
    part = heads.Features(torch.stack([seen, seen]), read)
    found, recall = heads.trained_heads(part, part, epochs=30)
    assert recall == found.recall(part) > 90
    vectors = found.image(seen)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(40), atol=1e-5)


def test_heads_have_no_norm_that_could_adapt():
    head = heads.Head(7)
    assert {name.partition(".")[0] for name, _ in head.named_parameters()} == {
        "straight",
        "up",
        "down",
    }


def test_no_learning_rate_is_recommended():
    assert [list(own) for own in heads.RECOMMENDED.values()] == [["temperature"]]


def test_validation_has_one_shift_of_each_modality_and_test_has_the_clean_streams():
    assert [(one.benchmark.name, one.shift) for one in rows.streams("val")] == [
        ("flickr8k-dev-o-image", "gaussian_noise"),
        ("flickr8k-dev-o-text", "character_swap"),
    ]
    found = list(rows.streams("test"))
    assert len(found) == 9 and {one.benchmark.part for one in found} == {""}
    (ocr,) = rows.streams("test", only="text-ocr")
    assert (ocr.benchmark.name, ocr.shift) == ("flickr8k-o-text", "ocr")
    assert [one.benchmark.name for one in found if not one.shift] == [
        "flickr8k-clean-image",
        "flickr8k-clean-text",
    ]


def test_photographs_and_captions_have_rates_of_their_own():
    by_rate = {
        "image": {"shot": {"0.001": 5, "0.01": 4}},
        "text": {"shot": {"0.001": 5, "0.01": 6}},
    }
    assert rows.best("shot:lr=val+hubs", "image", by_rate) == "shot:lr=0.001+hubs"
    assert rows.best("shot:lr=val", "text", by_rate) == "shot:lr=0.01"
    assert rows.best("default", "text", by_rate) == "default"


def test_rates_are_chosen_before_the_test_part_and_nothing_runs_twice(
    monkeypatch, capsys, tmp_path
):
    root, out = small.flickr8k(tmp_path / "data"), tmp_path / "runs"
    monkeypatch.setattr(rows, "RATES", (0.01, 0.1))

    def command(part):
        words = (part, "--root", root, "--out", out, "--model", "small=tangram")
        methods = ("--methods", "frozen", "shot:lr=val")
        monkeypatch.setattr("sys.argv", ["rows", *map(str, (*words, *methods))])
        rows.main()
        return capsys.readouterr().out.splitlines()

    assert len(command("val")) == 4
    rates = json.loads((out / rows.CHOSEN).read_text(encoding="utf-8"))
    assert {query: list(own["shot"]) for query, own in rates.items()} == {
        "image": ["0.01", "0.1"],
        "text": ["0.01", "0.1"],
    }
    assert len(command("test")) == 18
    assert not command("test")
    cells = read_folder(out / "test").cells
    assert {cell.candidates for cell in cells} == {10, 2}


def cell(method, hits, benchmark="flickr8k-o-image", shift="fog"):
    ranks = np.where(np.asarray(hits), 1, 60)
    more = {"severity": 2, "protocol": "online", "seed": 0, "model": "m", "candidates": 99}
    return Cell(benchmark=benchmark, shift=shift, method=method, ranks=ranks, **more)


RIGHT, BETTER = np.arange(400) % 4 == 0, np.arange(400) % 2 == 0


def streams(cells):
    return [one for series in pages.SERIES for one in pages.streams(cells, series)]


@pytest.mark.parametrize(("best", "said"), [(RIGHT, "reached"), (BETTER, "missed")])
def test_the_page_says_whether_the_target_is_reached(best, said):
    own = {"frozen": RIGHT, "rest:lr=0.001": RIGHT, "shot:lr=0.001+hubs": best, "default": BETTER}
    cells = [
        cell(name, hits, f"flickr8k-o-{query}", shift)
        for name, hits in own.items()
        for query, shift in (("image", "fog"), ("text", "ocr"))
    ]
    clean = [cell(name, ~RIGHT, "flickr8k-clean-image", "") for name in own]
    some = streams([*cells, *clean])
    assert [(one.series, one.name) for one in some] == [
        (pages.PHOTOGRAPHS, "clean"),
        (pages.PHOTOGRAPHS, "fog"),
        (pages.CAPTIONS, "ocr"),
    ]
    text = pages.photographs(some)
    assert "| default | 50.0 | 50.0 | 50.0 |" in text and "| frozen | 25.0 |" in text
    assert f"**The target is {said}.**" in text
    assert pages.photographs([]) == pages.NOT_RUN


def test_what_the_page_says_of_flickr8k_holds():
    with (pages.RESULTS / "real" / pages.DIFFERENCES).open(encoding="utf-8") as file:
        own = [row for row in csv.DictReader(file) if row["metric"] == "recall@1"]
    found = {
        (row["set"], row["stream"], *sorted((row["row"], row["against"]))): (
            float(row["points"]) * (1 if row["row"] == "default" else -1) > 0,
            row["beyond chance"] == "yes",
        )
        for row in own
    }

    def default(series, stream, other):
        return found[series, stream, *sorted(("default", other))]

    others = ("frozen", "frozen+hubs", "shot", "shot+hubs")
    above, below = (True, True), (False, True)
    clean = [default(pages.PHOTOGRAPHS, "clean", other) for other in others]
    assert clean == [(False, False), below, below, below]
    clean = [default(pages.CAPTIONS, "clean", other) for other in others]
    assert clean == [(False, False), (False, False), (False, False), below]
    fog = [default(pages.PHOTOGRAPHS, "fog", other) for other in (*others, "rest")]
    assert fog == [above, above, (True, False), above, above]
    rest = {"jpeg": above, "motion blur": above, "gaussian noise": (True, False)}
    for stream, told in rest.items():
        assert default(pages.PHOTOGRAPHS, stream, "rest") == told
        assert not any(default(pages.PHOTOGRAPHS, stream, other)[1] for other in others)
    for stream in ("character swap", "ocr", "word deletion"):
        assert not any(default(pages.CAPTIONS, stream, other)[1] for other in (*others, "rest"))
