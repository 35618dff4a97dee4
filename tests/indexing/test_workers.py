"""Processes that encode: how many threads each has, what it keeps, and what it gives back."""

from pathlib import Path

import pytest
import torch
from hashing_model import DIMENSION, HashingEncoder, make

from queryshift.errors import BadInput
from queryshift.indexing import BuildSettings, workers
from queryshift.indexing.plan import Shard
from queryshift.indexing.workers import Job, check_loadable, encode_shard, in_worker, worked


class Kept:
    """A target that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[tuple[int, list, torch.Tensor]] = []
        self.closed = 0

    def write(self, shard, ids, vectors):
        self.written.append((shard, list(ids), vectors))

    def close(self):
        self.closed += 1


class Scaled(HashingEncoder):
    """Vectors that have not unit length, or are not finite."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, prepared):
        vectors = super().forward(prepared)
        vectors[-1] *= self.factor
        return vectors


def shard(*texts, number: int = 3) -> Shard:
    return Shard(number, [f"c{row}" for row in range(len(texts))], list(texts))


def job(plan: str = "plan", model=make, target=None, **settings) -> Job:
    return Job(plan, model, "text", BuildSettings(**settings), target)


@pytest.fixture
def threads(monkeypatch):
    """The numbers of threads that torch was told of, on a machine of eight processors."""
    told: list[int] = []
    monkeypatch.setattr(workers, "processors", lambda: 8)
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr(workers, "_loaded", {})
    return told


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"processes": 2}, 4),
        ({"processes": 3}, 2),
        ({"processes": 8}, 1),
        ({"processes": 20}, 1),
        ({"processes": 2, "ray": ""}, 1),  # a task on every processor
    ],
)
def test_processes_share_the_processors(threads, settings, expected):
    in_worker((job(**settings), shard("one")))
    assert threads == [expected]


def test_a_process_loads_a_model_once_and_keeps_the_latest(threads):
    loaded = []

    def counted():
        loaded.append(1)
        return make()

    for plan in ("first", "first", "second", "second"):
        done = in_worker((job(plan, counted), shard("one", "two")))
        assert done.ids == ["c0", "c1"] and done.vectors.shape == (2, 1, DIMENSION)
    assert len(loaded) == 2 and list(workers._loaded) == ["second"]


def test_a_worker_with_a_target_writes_and_gives_back_no_vectors():
    kept = Kept()
    done = worked(make(), job(target=kept), shard("one", "refused"))
    assert (done.ids, done.vectors) == ((), None)
    assert (done.receipt.shard, done.receipt.rows, len(done.receipt.bad)) == (3, 1, 1)
    ((number, ids, vectors),) = kept.written
    assert (number, ids, vectors.shape) == (3, ["c0"], (1, 1, DIMENSION)) and kept.closed == 1


def test_a_shard_without_a_readable_item_is_not_written():
    kept = Kept()
    done = worked(make(), job(target=kept), shard("refused", ""))
    assert kept.written == [] and (done.receipt.rows, len(done.receipt.bad)) == (0, 2)


def test_vectors_of_another_length_are_refused_not_scaled():
    with pytest.raises(BadInput, match="normalise them in forward"):
        encode_shard(Scaled(2.0), shard("one", "two"), 2)


def test_an_item_whose_vector_is_not_finite_is_left_out():
    done = encode_shard(Scaled(float("nan")), shard("one", "two", "three"), 3)
    assert done.ids == ["c0", "c1"] and torch.isfinite(done.vectors).all()
    assert [(row.id, row.reason) for row in done.receipt.bad] == [
        ("c2", "its vector has NaN or infinite values.")
    ]


@pytest.mark.parametrize("model", ["tangram", Path("model"), make, HashingEncoder])
def test_names_paths_and_functions_can_be_loaded_anywhere(model):
    check_loadable(model)


@pytest.mark.parametrize("model", [{"text": None}, None, 7])
def test_what_is_only_in_this_process_cannot(model):
    with pytest.raises(BadInput, match="expected its name or a function of a module"):
        check_loadable(model)
