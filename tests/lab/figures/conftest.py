"""A stage small enough for every analysis: the toy encoder, sixty candidates, two batches."""

import pytest

BATCH = 12


@pytest.fixture(scope="session")
def stage(encoder, gallery, clean, tmp_path_factory):
    """Twenty-four shifted queries of toy items, each with two right answers."""
    from miniature import shifted
    from queryshift.lab.datasets import Dataset
    from queryshift.lab.evaluation.benchmarks import Benchmark
    from queryshift.lab.figures.stage import Request, Stage

    row = Benchmark(
        name="toy-items",
        series="toy",
        dataset="tangram",
        query="image",
        gallery="text",
        source="bundled",
        severities=(),
        batch=BATCH,
        temperature=None,
    )
    count = 2 * BATCH
    dataset = Dataset(
        name="toy",
        query="image",
        gallery="text",
        queries=shifted(clean[:count]),
        query_ids=[str(one) for one in range(count)],
        candidates=clean,
        matches=[(one, one + count) for one in range(count)],
    )
    return Stage(row, dataset, encoder, gallery, Request(kept=tmp_path_factory.mktemp("kept")))


def opening(patch, stage):
    """Every analysis opens the small stage from now on, whatever it is asked for."""
    from queryshift.lab.figures.stage import Stage

    patch.setattr(Stage, "open", classmethod(lambda cls, *given: stage))


@pytest.fixture
def opened(stage, monkeypatch):
    """The small stage, in the place of every other."""
    opening(monkeypatch, stage)
    return stage


@pytest.fixture(scope="session")
def chart_of(stage):
    """The chart of a name, computed once for all tests."""
    from queryshift.lab.figures import FIGURES

    known = {}

    def find(name):
        if name == "tsne":
            pytest.importorskip("sklearn")
        if name not in known:
            with pytest.MonkeyPatch.context() as patch:
                opening(patch, stage)
                known[name] = FIGURES[name](stage.request)
        return known[name]

    return find
