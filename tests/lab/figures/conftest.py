"""An experiment small enough for every analysis: the toy encoder, sixty candidates, two batches."""

import pytest

BATCH = 12


@pytest.fixture(scope="session")
def experiment(encoder, gallery, clean, tmp_path_factory):
    """Twenty-four shifted queries of toy items, each with two right answers."""
    from miniature import shifted
    from queryshift.lab.datasets import Dataset
    from queryshift.lab.evaluation.benchmarks import Benchmark
    from queryshift.lab.figures.experiment import Experiment, Request

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
    return Experiment(row, dataset, encoder, gallery, Request(kept=tmp_path_factory.mktemp("kept")))


def opening(patch, experiment):
    """Every analysis opens the small experiment from now on, whatever it is asked for."""
    from queryshift.lab.figures.experiment import Experiment

    patch.setattr(Experiment, "open", classmethod(lambda cls, *given: experiment))


@pytest.fixture
def opened(experiment, monkeypatch):
    """The small experiment, in the place of every other."""
    opening(monkeypatch, experiment)
    return experiment


@pytest.fixture(scope="session")
def chart_of(experiment):
    """The chart of a name, computed once for all tests."""
    from queryshift.lab.figures import FIGURES

    known = {}

    def find(name):
        if name == "tsne":
            pytest.importorskip("sklearn")
        if name not in known:
            with pytest.MonkeyPatch.context() as patch:
                opening(patch, experiment)
                known[name] = FIGURES[name](experiment.request)
        return known[name]

    return find
