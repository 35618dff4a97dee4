"""Runs whose best hits a matching head ranks anew: tangram's and BLIP's, on a small COCO."""

from dataclasses import replace

import numpy as np
import pytest

import coco_of_scenes
from queryshift import Session, load
from queryshift.errors import BadInput
from queryshift.lab.evaluation import paper
from queryshift.lab.evaluation.benchmark_methods import method_of
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.corrupted_queries import corruption_of
from queryshift.lab.evaluation.report.paper_numbers import paper_value
from queryshift.lab.evaluation.report.result_tables import Column, tabulate
from queryshift.lab.evaluation.results import read_folder
from queryshift.lab.evaluation.runner.context import RunContext
from queryshift.lab.evaluation.runner.plans import Choices, Plan
from queryshift.lab.evaluation.runner.prepared_benchmark import prepare
from queryshift.lab.evaluation.runner.resume import run_all
from queryshift.lab.evaluation.stream_evaluation import run, shifted
from queryshift.models import matcher

SHIFT = "gaussian_noise"


def never(context, prepared, tasks, watch):
    raise AssertionError(f"{tasks} should not be run")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    root = coco_of_scenes.write(tmp_path_factory.mktemp("coco"), 8)
    choices = Choices(model="tangram", root=root, preprocessing="library")
    row = BENCHMARKS["coco-o-image"]
    return Plan(row=row, methods=("frozen", "rest"), shifts=(SHIFT,), choices=choices)


@pytest.fixture(scope="module")
def judged(plan, tmp_path_factory):
    """A folder with cells of the dual stream and of the single one, and the latter."""
    out = tmp_path_factory.mktemp("judged")
    run_all([plan], out)
    choices = replace(plan.choices, matcher=True, rerank=6)
    return out, run_all([replace(plan, choices=choices)], out).cells


def test_a_cell_is_what_a_session_with_a_matcher_gives(plan, judged):
    context = RunContext()
    prepared = prepare(plan.row, plan.choices, judged[0] / "galleries", context)
    dataset, gallery = prepared.parts[0].dataset, prepared.parts[0].gallery
    judge = matcher(load("tangram"), "image", 6).over(dataset.candidates)
    queries = shifted(dataset, corruption_of(plan.row, SHIFT), 5)
    method = method_of("rest", plan.row)
    session = Session(context.encoder(prepared), gallery, method, matcher=judge, guard=None)
    outcome = run(session, queries, dataset.matches)
    assert np.array_equal(judged[1][1].ranks, outcome.all_ranks)


def test_cells_with_and_without_a_matcher_never_mix(plan, judged):
    cells = read_folder(judged[0]).cells
    models = ["tangram", "tangram", "tangram with matching", "tangram with matching"]
    assert [cell.model for cell in cells] == models
    assert not np.array_equal(cells[0].ranks, cells[2].ranks)
    assert [cell.settings["rerank"] for cell in cells] == [None, None, 6, 6]
    assert [table.title.split(",")[0] for table in tabulate(cells)] == models[::2]
    assert run_all([plan], judged[0], never).kept == 2


def test_another_depth_is_refused(plan, judged):
    published = replace(plan.choices, matcher=True)
    with pytest.raises(BadInput, match="rerank was 6, is 256"):
        run_all([replace(plan, choices=published)], judged[0], never)


def test_the_papers_single_stream_stands_beside_it(judged):
    column = Column("coco-o-image", SHIFT, "recall@1")
    single = paper.find(column.benchmark, SHIFT, "frozen", "BLIP ViT-B/16 with matching")
    assert paper_value(judged[1][0], column) == single


def test_a_model_without_a_head_is_refused(tmp_path):
    row, choices = BENCHMARKS["tangram-o-audio"], Choices(queries=2, matcher=True)
    with pytest.raises(BadInput, match="no matcher is known"):
        run_all([Plan(row=row, methods=("frozen",), choices=choices)], tmp_path, never)


@pytest.mark.filterwarnings("ignore:a text of")  # the tiny model takes short ones
@pytest.mark.parametrize("query", ["image", "text"])
def test_blip_runs_in_both_directions(plan, query, checkpoint, tmp_path):
    name = str(checkpoint("BlipForImageTextRetrieval"))
    choices = replace(plan.choices, model=name, matcher=True, rerank=4)
    row = BENCHMARKS[f"coco-o-{query}"]
    methods = ("frozen", "rest:lr=0.5")
    asked = replace(plan, row=row, shifts=row.shifts[:1], choices=choices, methods=methods)
    frozen, rest = run_all([asked], tmp_path).cells
    assert frozen.model == f"{name} with matching"
    assert frozen.queries == (8 if query == "image" else 40)
    assert rest.settings["method"]["mine_with"] == "matcher"
    assert not np.array_equal(frozen.ranks, rest.ranks)
