"""What the kept results of the comparison show, and that they are of the settings of now."""

import json
from pathlib import Path

import pytest
from training.comparison import guard_limits, hostile_table, lines, report, units
from training.comparison.hostile_streams import STREAMS

from queryshift.lab.datasets.tangram_tasks import TASKS
from queryshift.lab.evaluation.results import read_folder

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
METHODS = ("frozen", units.GUARDED)
ENCODERS = {task: "/".join(sides[:2]) for task, sides in TASKS.items()}


@pytest.fixture(scope="module")
def advice():
    return json.loads((ROOT / "src/queryshift/lab/tangram/weights/recommended.json").read_text())


@pytest.fixture(scope="module")
def rows():
    """Cells by benchmark, severity and method."""
    cells = read_folder(RESULTS / "tangram").cells
    return report.grouped(cells, lambda cell: (cell.benchmark, cell.severity, cell.method))


@pytest.fixture(scope="module")
def mixed():
    return lines.read(RESULTS / "tangram-mixtures.jsonl.gz")


def tuned_as(benchmark: str, method: str) -> str:
    """Whose settings a row has: REST decouples where the paper does."""
    diverse = benchmark.startswith(("tangram-d-", "tangram2products"))
    return "rest+decoupled" if method == "rest" and diverse else method.split(":")[0]


def test_every_cell_has_the_recommended_settings_and_three_seeds(rows, advice):
    for (benchmark, _, method), cells in rows.items():
        shifts = {cell.shift for cell in cells}
        assert len(cells) == 3 * len(shifts) and {cell.seed for cell in cells} == {0, 1, 2}
        if method == "frozen":
            continue
        wanted = advice[ENCODERS[benchmark.rsplit("-", 1)[1]]][tuned_as(benchmark, method)]
        for cell in cells:
            own = cell.settings["method"]
            assert {name: own[name] for name in wanted} == wanted, cell.key


def test_every_mixed_stream_is_there_with_the_recommended_settings(mixed, advice):
    wanted = {(unit.key, method) for unit in units.mixtures() for method in unit.methods}
    assert {(line["key"], line["method"]) for line in mixed} == wanted and len(mixed) == len(wanted)
    names = {units.GUARDED: "rest", "tent+decoupled": "tent"}
    for line in (line for line in mixed if line["method"] != "frozen"):
        own = advice[ENCODERS[line["task"]]][names.get(line["method"], line["method"])]
        assert {name: line[name] for name in own} == own, line["key"]


def test_every_development_shift_takes_half_of_the_recall():
    kept = lines.read(RESULTS / "tangram-grid.jsonl.gz")
    for task in TASKS:
        found = [line for line in kept if line["task"] == task and line["method"] == "frozen"]
        recall = {line["parts"][0]["shift"]: line["recall"][0]["1"] for line in found}
        clean = [value for shift, value in recall.items() if units.is_clean(shift)]
        for number in range(3):
            share = recall[f"dev:{number}"] / (sum(clean) / len(clean))
            assert share == pytest.approx(0.5, abs=0.02), (task, number)


def recall(cells) -> float:
    return 100 * report.right(cells).mean()


def test_rest_is_above_no_adaptation_in_every_row(rows):
    compared = 0
    for (benchmark, severity, method), cells in rows.items():
        if method.startswith("rest") and benchmark.startswith(("tangram-o-", "tangram-d-")):
            assert recall(cells) > recall(rows[benchmark, severity, "frozen"])
            compared += 1
    assert compared == 30
    lift = recall(rows["tangram-o-image", 3, "rest"]) - recall(rows["tangram-o-image", 3, "frozen"])
    assert lift >= 12


@pytest.mark.parametrize("task", TASKS)
def test_clean_traffic_loses_at_most_half_a_point_with_a_guard(task, rows, mixed):
    source = recall(rows[f"tangram-clean-{task}", 0, "frozen"])
    guarded = [one for one in mixed if one["method"] == units.GUARDED and one["task"] == task]
    clean = lines.per_seed([one for one in guarded if one["name"] == "clean"])
    assert clean.shape == (3, 2000) and 100 * clean.mean() >= source - 0.5
    after = [one for one in mixed if one["name"] == "sequence" and one["task"] == task]
    own = {m: lines.per_seed([one for one in after if one["method"] == m], 1) for m in METHODS}
    assert own[units.GUARDED].mean() >= own["frozen"].mean() - 0.005


def test_the_page_on_hostile_streams_is_made_of_the_kept_runs():
    made = hostile_table.page(RESULTS / "hostile.jsonl")
    assert made == (ROOT / "docs" / "reliability.md").read_text()


@pytest.mark.parametrize("method", ["rest", "tcr", "shot", "default"])
def test_every_hostile_stream_was_run_guarded_and_bare(method):
    runs = hostile_table.Runs.read(RESULTS / "hostile.jsonl", "test")
    for stream in STREAMS:
        found, seeds = runs.means(
            stream, hostile_table.FROZEN, (method, "bare"), (method, "guarded")
        )
        assert found and seeds, stream


def test_the_limits_of_a_guard_are_those_that_were_measured():
    page = (ROOT / "docs" / "research" / "guard-limits.md").read_text()
    assert guard_limits.table(RESULTS / "guard-limits.jsonl") in page
