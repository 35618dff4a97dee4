"""The contract of the table: every row on disk runs, from the publisher's files to a cell."""

import numpy as np
import pytest

from queryshift.benchmarks import BENCHMARKS, COMPOSED
from queryshift.cells import work
from queryshift.ground import Choices, prepare
from queryshift.plans import Plan
from small_datasets import WRITERS

MODELS = {"video": "tangram-clips", "audio": "tangram-clips", COMPOSED: "tangram-edits"}
ROWS = {name: row for name, row in BENCHMARKS.items() if row.dataset in WRITERS}


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    return {name: write(tmp_path_factory.mktemp(name)) for name, write in WRITERS.items()}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


def test_no_row_is_forgotten():
    others = {row.dataset for name, row in BENCHMARKS.items() if name not in ROWS}
    assert others == {"tangram", "fashion-gen"}  # one needs no files, the other h5py


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_runs_from_files_to_a_cell(row, roots, kept):
    model = MODELS.get(row.query, "tangram")
    choices = Choices(model=model, root=roots[row.dataset], preprocessing="library")
    ground = prepare(row, choices, kept)
    task = Plan(row=row, methods=("tent",), choices=choices).tasks()[0]
    cell = work(ground, task)
    assert (cell.benchmark, cell.queries) == (row.name, ground.queries)
    assert cell.ranks[:, 0].max() <= max(len(part.gallery) for part in ground.parts)
    assert tuple(cell.groups) == row.categories
    assert (cell.subset_ranks is not None) == (row.dataset == "cirr")
    assert np.isfinite(cell.measure(row.metric))
