"""InfoMax: its loss in plain numpy, its falling rate and share, and what it remembers."""

import numpy as np
import pytest
import torch

from queryshift import Decoupled, Gallery, InfoMax, Refined, Session
from queryshift.errors import BadInput, NeedsVectors
from queryshift.methods.base import StepView
from queryshift.methods.infomax import Learnt
from queryshift.retrieval.forward import Forward
from queryshift.support.tensor_files import read
from toy import ToyEncoder, toy_gallery, toy_queries

K, TAU = 3, 0.2


class OnlySearched:
    """A gallery that shows its candidates by searching only, as an engine does."""

    def __init__(self, gallery: Gallery) -> None:
        self.search, self._size = gallery.search, len(gallery)

    def __len__(self) -> int:
        return self._size

    @property
    def vectors(self) -> torch.Tensor:
        raise NeedsVectors("only searched")


@pytest.fixture
def vectors():
    generator = torch.Generator().manual_seed(0)
    return torch.nn.functional.normalize(torch.randn(38, 6, generator=generator), dim=1)


@pytest.fixture
def gallery(vectors):
    return Gallery.from_vectors(range(30), vectors[:30].tolist())


def plain(queries, gallery, columns) -> float:
    """Mean entropy, less the entropy of the mean prediction."""
    scores = (queries @ gallery.vectors[:, 0].T).detach().double().numpy()
    weights = np.exp(scores[:, columns] / TAU)
    shares = weights / weights.sum(axis=1, keepdims=True)
    mean = shares.mean(axis=0)
    sure = -(shares * np.log(shares)).sum(axis=1).mean()
    return sure + (mean * np.log(mean + 1e-5)).sum()


@pytest.mark.parametrize("kind", ["whole", "listed"])
def test_predictions_are_sure_and_together_even(kind, vectors, gallery):
    queries = vectors[30:].requires_grad_()
    forward = Forward(queries, gallery if kind == "whole" else OnlySearched(gallery))
    nearest = gallery.search(queries.detach(), K).positions
    columns = range(30) if kind == "whole" else sorted(set(nearest.flatten().tolist()))
    method = InfoMax(temperature=TAU, neighbours=K)
    expected = plain(queries, gallery, columns)
    for learnt in (1, 9):  # what was learnt before changes the rate, not the loss
        found = float(method.loss(forward, Learnt(learnt)).detach())
        assert found == pytest.approx(expected, abs=1e-4)


def test_the_rate_falls_with_the_root_of_the_batches():
    encoder = ToyEncoder()
    gallery = toy_gallery(encoder, 40)
    rates = []

    class Watched(InfoMax):
        def gradient(self, step_view: StepView, memory):
            update = super().gradient(step_view, memory)
            rates.append(update.rate)
            return update

    session = Session(encoder, gallery, Watched(), steps=1, guard=None)
    for batch in toy_queries(4, 16, 40):
        session.answer(batch)
    assert rates == pytest.approx([1, 2**-0.5, 3**-0.5, 1 / 2])


def test_its_temperature_is_a_part_of_the_spread(vectors, gallery):
    forward = Forward(vectors[30:], gallery)
    spread = float((vectors[30:] @ vectors[:30].T).std(correction=0))
    own, said = InfoMax(part=2.0), InfoMax(temperature=spread / 2)
    assert Session(ToyEncoder(), toy_gallery(ToyEncoder(), 40), own).method.temperature is None
    assert torch.allclose(own.loss(forward, Learnt()), said.loss(forward, Learnt()), atol=1e-5)


@pytest.mark.parametrize("exclude", [None, torch.tensor([(0, 3), (7, 29)])])
def test_its_temperature_is_a_part_of_the_spread_of_what_is_not_left_out(vectors, gallery, exclude):
    forward = Forward(vectors[30:], gallery, exclude)
    scores = (vectors[30:] @ vectors[:30].T).double().numpy()
    kept = np.ones_like(scores, dtype=bool)
    if exclude is not None:
        kept[tuple(exclude.numpy().T)] = False
    said = InfoMax(temperature=float(scores[kept].std()) / 3)
    expected = said.loss(forward, Learnt()).item()
    assert InfoMax().loss(forward, Learnt()).item() == pytest.approx(expected, abs=1e-6)


def test_over_an_engine_left_out_candidates_are_as_if_no_query_had_found_them(vectors, gallery):
    """What one query leaves out may still be another's."""
    method, queries = InfoMax(temperature=TAU, neighbours=K), vectors[30:]
    nearest = gallery.search(queries, 1).positions[:, 0]
    exclude = torch.stack((torch.arange(8), nearest), dim=1)
    forward = Forward(queries, OnlySearched(gallery), exclude)
    columns = sorted(set(gallery.search(queries, K, exclude).positions.flatten().tolist()))
    scores = (queries @ gallery.vectors[:, 0].T).double()
    scores[exclude[:, 0], exclude[:, 1]] = -torch.inf
    shares = (scores[:, columns] / TAU).softmax(dim=1)
    assert (shares == 0).any()
    mean = shares.mean(dim=0)
    expected = torch.special.entr(shares).sum(dim=1).mean() + (mean * (mean + 1e-5).log()).sum()
    assert float(method.loss(forward, Learnt())) == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("wrapped", [lambda one: one, Refined, Decoupled])
def test_steps_learn_from_ever_fewer_queries(wrapped):
    method = wrapped(InfoMax())
    found = [method.step_share(Learnt(count)) for count in range(8)]
    assert found == pytest.approx([1, 1, 1 / 2, 1 / 2, 1 / 2, 1 / 2, 1 / 3, 1 / 3])


def test_batches_are_counted_once_and_outlive_their_gallery():
    encoder = ToyEncoder()
    gallery = toy_gallery(encoder, 40)
    session = Session(encoder, gallery, InfoMax(), guard=None, steps=3)
    for batch in toy_queries(4, 16, 40):
        session.answer(batch)
    session.gallery = gallery.remove(gallery.ids[:3])
    assert session.state.memory == Learnt(4)


def test_its_memory_has_these_names_in_files(tmp_path):
    """Other names, and sessions that were saved before would not load."""
    encoder = ToyEncoder()
    session = Session(encoder, toy_gallery(encoder, 40), InfoMax(), guard=None)
    session.answer(toy_queries(1, 16, 40)[0])
    session.save(tmp_path / "session")
    tensors, about = read(tmp_path / "session", "session", mapped=False)
    assert about["state"]["memory"] == {"fields": {"learnt": 1}}
    assert not any(name.startswith("memory") for name in tensors)


@pytest.mark.parametrize(("given", "reported"), [(None, 0.02), (0.5, 0.5)])
def test_where_one_number_is_reported_an_open_temperature_is_the_papers(given, reported):
    assert InfoMax(temperature=given).tau == reported


def test_refined_it_still_covers_the_union_of_what_all_queries_list(vectors, gallery):
    plain = InfoMax(temperature=TAU, neighbours=K)
    found = Refined(plain, neighbours=2).loss(Forward(vectors[30:], gallery), Learnt())
    union = plain.loss(Forward(vectors[30:], OnlySearched(gallery)), Learnt())
    assert torch.allclose(found, union)


@pytest.mark.parametrize("given", [{"neighbours": 0}, {"part": 0}, {"part": -1.0}])
def test_what_cannot_be_is_refused(given):
    with pytest.raises(BadInput, match=next(iter(given))):
        InfoMax(**given)


@pytest.mark.parametrize(
    ("learnt", "fine"), [(0, True), (2**53 - 1, True), (2**53, False), (-1, False), (True, False)]
)
def test_only_counts_are_read_from_a_file(learnt, fine):
    gallery = Gallery.from_vectors(None, torch.eye(2))
    if fine:
        return InfoMax().check_memory(Learnt(learnt), gallery)
    with pytest.raises(ValueError, match="not a count"):
        InfoMax().check_memory(Learnt(learnt), gallery)
