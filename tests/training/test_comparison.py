"""The grid of rates on the development world, the choice from it, and what cells keep."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from training.comparison import choose, grid, store
from training.comparison.dev_shifts import DEV

from queryshift.lab.datasets.tangram import TASKS, tangram
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.results import Cell, read_folder, write_line
from queryshift.methods.specs import canonical

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "research" / "rates-grid.jsonl.gz"


@pytest.fixture(scope="module")
def kept():
    return [json.loads(line) for line in gzip.decompress(KEPT.read_bytes()).splitlines()]


def test_the_kept_grid_is_whole_and_gave_the_recommendations(kept, tmp_path):
    wanted = {(one.key, one.method) for one in grid.streams()}
    assert {(line["key"], line["method"]) for line in kept} == wanted
    assert [canonical(method) for method in grid.TUNED] == list(grid.TUNED)
    choose.main(KEPT, tmp_path / "choice.json")
    path = ROOT / "src" / "queryshift" / "lab" / "tangram" / "weights" / "recommended.json"
    advice = json.loads(path.read_text())
    assert all(own.pop("infomax") for own in advice.values())  # chosen later, on a wider grid
    assert json.loads((tmp_path / "choice.json").read_text()) == advice


def test_every_development_shift_takes_half_of_the_recall(kept):
    for task in TASKS:
        found = [line for line in kept if line["task"] == task and line["method"] == "frozen"]
        recall = {line["parts"][0]["shift"]: line["recall"][0]["1"] for line in found}
        clean = [value for shift, value in recall.items() if grid.is_clean(shift)]
        for number in range(len(DEV[task])):
            share = recall[f"dev:{number}"] / (sum(clean) / len(clean))
            assert share == pytest.approx(0.5, abs=0.02), (task, number)


def grid_line(method: str, shift: str, recall: float, lr: float = 1e-3):
    """What the grid found for one point."""
    told = {"task": "text", "method": method, "lr": lr, "temperature": 0.01}
    return {**told, "parts": [{"shift": shift}], "recall": [{"1": recall}]}


@pytest.mark.parametrize(
    ("clean", "chosen"),
    [
        ({1e-4: 90.0, 1e-3: 89.5, 3e-3: 80.0}, 1e-3),  # half a point may be lost
        ({1e-4: 90.0, 1e-3: 89.49, 3e-3: 90.2}, 3e-3),
        ({1e-4: 85.0, 1e-3: 80.0, 3e-3: 86.0}, 3e-3),  # none is harmless: the least harmful
    ],
)
def test_the_best_under_shift_is_chosen_of_those_that_cost_clean_queries_little(clean, chosen):
    lines = [grid_line("frozen", "clean", 90.0, lr=1e-4)]
    for lr, best in ((1e-4, 10.0), (1e-3, 30.0), (3e-3, 20.0)):
        lines += [grid_line("rest", f"dev:{i}", best + i, lr) for i in range(2)]
        lines.append(grid_line("rest", "clean", clean[lr], lr))
    ((key, points),) = choose.points(lines).items()
    assert key == ("text", "rest") and choose.best(points).lr == chosen
    assert {point.shifted for point in points} == {10.5, 30.5, 20.5}


class TestStreams:
    @pytest.fixture(autouse=True)
    def world(self, monkeypatch):
        whole = tangram("text")
        few = replace(whole, candidates=whole.candidates[:80]).asking(range(80))
        monkeypatch.setitem(grid.WORLDS, "text", few)
        monkeypatch.setitem(grid.OPTIONS, "device", "cpu")
        monkeypatch.setattr(grid.Stream, "last", 80)
        grid._answering.cache_clear()
        yield few
        grid._answering.cache_clear()

    def test_a_point_of_the_grid_is_what_the_session_takes(self):
        stream = grid.Stream("text", "dev:0", "tent", ((1e-3, 0.05),))
        (line,) = map(json.loads, map(json.dumps, grid.work(stream)))
        assert (line["lr"], line["temperature"]) == (1e-3, 0.05)
        assert (line["key"], line["method"]) == (stream.key, "tent")
        assert 0 < line["recall"][0]["1"] <= line["recall"][0]["10"]

    def test_every_caption_is_asked_once(self):
        asked = [
            grid.queries(grid.Stream("text", shift, "tent", ())) for shift in grid._clean("text")
        ]
        scenes = tangram("image", "dev").candidates
        for row in (0, 7, 1999):
            own = [stream[row] for stream in asked]
            assert sorted(own) == sorted(scenes[5 * row : 5 * row + 5])


def test_recall_of_what_is_kept_is_exact(tmp_path):
    row = BENCHMARKS["tangram-o-image"]
    whole = Cell(
        benchmark=row.name,
        shift="fog",
        severity=3,
        protocol=row.protocol,
        method="rest",
        seed=0,
        ranks=np.array([[1, 9], [50, 60], [51, 80], [1234, 2000], [96, 97]]),
        candidates=2000,
        model=row.model,
    )
    write_line(tmp_path / "runs" / "one.jsonl", whole)
    store.main([tmp_path / "runs"], tmp_path / "kept")
    (found,) = read_folder(tmp_path / "kept").cells
    assert found.ranks[:, 0].tolist() == [1, 50, 51, 1000, 100]
    for depth in (1, 5, 10, 50):
        assert found.measure(f"recall@{depth}") == whole.measure(f"recall@{depth}")
    assert found.settings["stored"] == store.STORED
