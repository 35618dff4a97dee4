"""The sealed comparison: its streams, its corrections, and that the page says what was kept."""

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from training.comparison import (
    choose,
    corrections,
    sealed_pages,
    sealed_plan,
    sealed_report,
    sealed_rows,
    sealed_verdicts,
)
from training.comparison.sealed_streams import QUERIES, Stream, phases, rows, streams

from queryshift import Gallery

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def kept():
    return sealed_rows.read(RESULTS / sealed_pages.KEPT)


@pytest.fixture(scope="module")
def costs():
    return json.loads((RESULTS / "cheap.json").read_text())


def test_the_methods_that_decide_went_through_every_stream_of_the_first_seeds(kept):
    done = {(Stream(*(line[n] for n in Stream.__annotations__)), line["method"]) for line in kept}
    for seed, kinds in enumerate((None, sealed_plan.DECIDING)):  # the run ended in the third
        wanted = [one for one in streams(seed) if kinds is None or one.kind in kinds]
        assert {(one, spec) for one in wanted for spec in sealed_plan.KEY} <= done


def test_the_pages_have_the_kept_numbers(kept, costs):
    found = sealed_rows.rows(kept)
    assert sealed_pages.default_page(found, costs) == (RESULTS / "default.md").read_text()
    assert sealed_report.minute(found, costs) in (RESULTS / "README.md").read_text()


def test_the_lines_of_the_first_world_are_missed_and_reached_as_its_numbers_say(costs):
    found = sealed_rows.rows(sealed_rows.read(RESULTS / "sealed.jsonl.gz"))
    given = list(sealed_verdicts.verdicts(found, costs))
    assert [one.reached for one in given] == [False] * 5 + [True, False, True, False, False]
    assert "10 rows above beyond chance, 7 level, 3 below" in given[0].told
    assert given[1].told.startswith("+0.8 (+0.6 to +1.1, p < 0.001) over shot (default 43.7")


def test_numbers_are_put_where_a_page_has_them():
    text = f"a\n{sealed_pages.START}old{sealed_pages.END}\nb"
    assert sealed_pages.between(text, "new") == text.replace("old", "new")


def test_streams_are_drawn_alike_every_time_and_ask_as_they_say():
    made = {one.kind: rows(one) for one in streams(0) if one.task == "text"}
    assert made == {one.kind: rows(one) for one in streams(0) if one.task == "text"}
    hostile = ("sorted", "repeated", "noise")
    assert {len(asked) for kind, asked in made.items() if kind not in hostile} == {QUERIES}
    assert len({scene for scene, _, _ in made["few"]}) == 20
    assert len({scene for scene, _, _ in made["online"]}) == QUERIES
    popular = Counter(scene for scene, _, _ in made["zipf"]).most_common(1)[0][1]
    assert popular > 50
    assert sum(shift is not None for _, _, shift in made["tenth"]) == pytest.approx(100, abs=40)


def test_rates_come_from_the_kept_grids_by_the_rule(tmp_path):
    grids = (RESULTS / f"tangram-grid{name}.jsonl.gz" for name in ("", "-wide"))
    choose.main(*grids, tmp_path / "rates.json")
    chosen = json.loads((tmp_path / "rates.json").read_text())
    for own in chosen.values():
        own.pop("default", None)  # the encoder recommends its rate
    assert chosen == json.loads((RESULTS / "sealed-rates.json").read_text())


def test_clean_queries_of_hostile_streams_are_counted_while_they_last_and_after():
    for one in streams(0):
        if one.kind in ("sorted", "repeated", "noise"):
            told = zip(rows(one), phases(one), strict=True)
            counted = Counter(phase for (scene, _, _), phase in told if scene >= 0)
            wanted = {"repeated": {"itself": 500, "during": 250}, "noise": {"during": 250}}
            assert counted == {"after": 500} | wanted.get(one.kind, {"": QUERIES})


def test_corrections_take_first_places_from_a_hub():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(40, 12, generator=generator), dim=1)
    gallery = Gallery.from_vectors(range(40), vectors.tolist())
    crowd = torch.nn.functional.normalize(vectors + vectors[3], dim=1)
    before = int((crowd @ vectors.T).argmax(dim=1).eq(3).sum())
    for name, correction in corrections.PUBLISHED.items():
        found = corrections.firsts_by(correction, [crowd[:20], crowd[20:]], gallery)
        assert int(found.eq(3).sum()) < before, name
    found = corrections.firsts_by_hubs([crowd[:20], crowd[20:]], gallery)
    assert int(found.eq(3).sum()) < before
