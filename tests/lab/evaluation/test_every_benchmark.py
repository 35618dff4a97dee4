"""The contract of the table: every row on disk runs, from the publisher's files to a cell."""

import json
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner

from queryshift.cli import main
from queryshift.lab.evaluation.benchmarks import BENCHMARKS, COMPOSED
from queryshift.lab.evaluation.runner.context import RunContext
from queryshift.lab.evaluation.runner.plans import Choices, Plan
from queryshift.lab.evaluation.runner.prepared_benchmark import prepare
from queryshift.lab.evaluation.runner.run_cell import run_cell
from small_datasets import WRITERS

MODELS = {"video": "tangram-clips", "audio": "tangram-clips", COMPOSED: "tangram-edits"}
ROWS = {name: row for name, row in BENCHMARKS.items() if row.dataset in WRITERS}


@pytest.fixture(scope="module")
def root_of(tmp_path_factory):
    """A dataset's folder, written when it is first asked for."""

    @cache
    def written(name):
        if name == "fashion-gen":
            pytest.importorskip("h5py")
        return WRITERS[name](tmp_path_factory.mktemp(name))

    return written


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


def test_no_row_is_forgotten():
    others = {row.dataset for name, row in BENCHMARKS.items() if name not in ROWS}
    assert others == {"tangram"}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_runs_from_files_to_a_cell(row, root_of, kept):
    heard = (row.query, row.gallery) == ("audio", "text")
    model = "audio_text:make" if heard else MODELS.get(row.query, "tangram")
    choices = Choices(model=model, root=root_of(row.dataset), preprocessing="library")
    context = RunContext()
    prepared = prepare(row, choices, kept, context)
    task = Plan(row=row, methods=("tent",), choices=choices).tasks()[0]
    cell = run_cell(context, prepared, task)
    assert (cell.benchmark, cell.queries) == (row.name, prepared.queries)
    assert cell.ranks[:, 0].max() <= max(len(part.gallery) for part in prepared.parts)
    assert tuple(cell.categories) == row.categories
    assert (cell.subset_ranks is not None) == (row.dataset == "cirr")
    assert np.isfinite(cell.measure(row.metric))


@pytest.mark.parametrize("query", ["image", "text"])
def test_fashion_gen_as_a_user_types_it(query, root_of, tmp_path):
    chosen = ("--model", "tangram", "--preprocessing", "library", "--device", "cpu", "--json")
    words = (f"fashion-gen-{query}", "-m", "frozen", "-m", "rest", "--root", root_of("fashion-gen"))
    told = CliRunner().invoke(main, ["run", *map(str, words), "--out", str(tmp_path), *chosen])
    assert told.exit_code == 0, told.output
    frozen, rest = map(json.loads, told.stdout.splitlines())
    assert (frozen["queries"], frozen["candidates"], frozen["setting"]) == (3, 3, "diverse")
    assert rest["settings"]["method"]["decouple"] and not frozen["settings"]["skipped"]
