"""The held-out comparison: its streams, its corrections, and the page made of its lines."""

import base64
import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from training.comparison import choose, corrections, sealed_page
from training.comparison.sealed_streams import QUERIES, phases, rows, streams

from queryshift import Gallery

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_made_of_the_kept_run():
    made = sealed_page.page(sealed_page.ROOT / sealed_page.KEPT, sealed_page.KEPT, sealed_page.RUN)
    assert made == sealed_page.PAGE.read_text()


def line(method: str, right: int, kind: str = "online", shift: str = "fog") -> dict:
    """One stream of 1,000 image queries of which the first so many are right."""
    bits = np.packbits(np.arange(1000) < right)
    about = {"kind": kind, "task": "image", "shift": shift, "severity": 3, "seed": 0, "phase": ""}
    return {
        **about,
        "method": method,
        "hits": base64.b64encode(bits.tobytes()).decode(),
        "queries": 1000,
    }


def written(path: Path, lines: list[dict]) -> sealed_page.Streams:
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    return sealed_page.read(path)


def test_a_difference_is_over_the_streams_that_both_finished(tmp_path):
    found = written(
        tmp_path / "lines.gz",
        [
            line("default", 600),
            line("rest", 500),
            line("default", 900, shift="snow"),  # REST has no such stream
        ],
    )
    rows = sealed_page.chosen(found, "online", ("default", "rest"))
    assert sealed_page.difference(rows, "rest").points == pytest.approx(10)
    low, high = sealed_page.difference(rows, "rest").interval
    assert low < 10 < high and high - low < 5


@pytest.mark.parametrize(("ours", "listed"), [(400, True), (499, False), (600, False)])
def test_losses_beyond_chance_are_listed(tmp_path, ours, listed):
    found = written(
        tmp_path / "lines.gz", [line("default", ours, "clean"), line("frozen", 500, "clean")]
    )
    told = list(sealed_page.losses(found))
    assert bool(told) == listed
    if listed:
        assert told[0][:4] == ["clean queries only", "image to text", "3", "frozen"]
        assert told[0][4].startswith("-10.0 (")


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
    grids = (DOCS / "research" / f"rates-grid{name}.jsonl.gz" for name in ("", "-wide"))
    choose.main(*grids, tmp_path / "rates.json")
    chosen = json.loads((tmp_path / "rates.json").read_text())
    for own in chosen.values():
        own.pop("default", None)  # the encoder recommends its rate
    assert chosen == json.loads((DOCS / "results" / "sealed-rates.json").read_text())


def test_clean_queries_of_hostile_streams_are_counted_while_they_last_and_after():
    for one in streams(0):
        if one.kind in ("sorted", "repeated", "noise"):
            told = zip(rows(one), phases(one), strict=True)
            counted = Counter(phase for (scene, _, _), phase in told if scene >= 0)
            wanted = {"repeated": {"itself": 500, "during": 250}, "noise": {"during": 250}}
            assert counted == {"after": 500} | wanted.get(one.kind, {"": QUERIES})


def test_corrections_take_top_results_from_a_hub():
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
