"""What a batch costs, in forwards and vector-Jacobian products, and what a session holds."""

import weakref

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from miniature import Remote, SharedToy, Toy, items, memory_of, stream, tensors_in
from queryshift import (
    METHODS,
    REST,
    SAR,
    TCR,
    Decoupled,
    Encoder,
    Gallery,
    Guard,
    Hubs,
    Session,
    Tent,
)
from queryshift.retrieval.forward import Batch

FIRST_ORDER = ("tent", "pl", "shot", "eata", "read", "come", "tcr", "rest")


@pytest.fixture
def cost(encoder, gallery, batches, count):
    """Forwards and products of each of the first three batches."""

    def of(method, **settings):
        settings = {"lr": 0.01, "guard": None, **settings}
        session, found = Session(encoder, gallery, method, **settings), []
        for batch in batches[:3]:
            count.restart()
            session.answer(batch)
            found.append((count.forwards, count.products))
        return found

    return of


@pytest.mark.parametrize("name", FIRST_ORDER)
@pytest.mark.parametrize("steps", [1, 3])
def test_a_step_is_one_forward_and_one_product(cost, name, steps):
    # every query counts as sure, so that each step has something to learn from
    sure = {"pl": {"confidence": 0.0}, "eata": {"redundancy": 2.0}}.get(name, {})
    assert cost(METHODS[name](**sure), steps=steps) == [(steps, steps)] * 3


@pytest.mark.parametrize("name", ["frozen", "tcr_untrained"])
def test_a_method_that_trains_nothing_costs_one_forward(cost, name):
    assert cost(METHODS[name]()) == [(1, 0)] * 3


def test_modules_outside_the_encoder_need_no_product_through_it(cost):
    assert cost(METHODS["tsa"]()) == [(3, 0)] * 3


@pytest.mark.parametrize("method", [REST(decouple=True), Decoupled(Tent())])
def test_decoupling_sees_the_source_once_a_batch_and_not_while_it_is_the_source(cost, method):
    # the first step of a stream is at the source: its forward is the source's, no second product
    assert cost(method) == [(3, 3 + 2), (3 + 1, 3 + 3), (3 + 1, 3 + 3)]
    assert cost(method, steps=1) == [(1, 1), (1 + 1, 1 + 1), (1 + 1, 1 + 1)]


def test_decoupling_costs_nothing_while_nothing_was_learnt(cost):
    assert cost(REST(decouple=True), lr=0.0) == [(3, 3)] * 3


def test_after_undoing_all_the_session_is_at_the_source_again(encoder, gallery, batches, count):
    session = Session(encoder, gallery, REST(decouple=True), lr=0.01, steps=1, guard=None)
    session.answer(batches[0])
    session.reset()
    count.restart()
    session.answer(batches[0])
    assert (count.forwards, count.products) == (1, 1)


def test_sar_looks_twice_a_step(cost):
    assert cost(SAR(reset_below=None)) == [(6, 6)] * 3


def test_a_guard_costs_one_source_forward_a_batch(cost):
    assert cost(Tent(), guard=Guard(), lr=1e-5) == [(3, 3), (4, 3), (4, 3)]


def test_the_default_guard_costs_nothing_where_nothing_is_learnt(encoder, gallery, batches, count):
    session = Session(encoder, gallery, METHODS["frozen"]())
    session.answer(batches[0])
    assert (count.forwards, count.products) == (1, 0)


def test_steps_see_only_the_queries_that_teach(encoder, gallery, batches, monkeypatch):
    """Three steps of the ten that teach, the source's forward of all, and the answer's."""
    session = Session(encoder, gallery, Tent(), lr=1e-5)
    session.answer(batches[0])
    assert session.state.adapted.updates == 3
    seen, forward = [], Batch.forward

    def counted(batch, params, graph):
        seen.append(len(batch))
        return forward(batch, params, graph)

    monkeypatch.setattr(Batch, "forward", counted)
    session.answer([*batches[1][:10], *batches[1][:2]])
    assert sorted(seen) == [10, 10, 10, 12, 12]


def test_queries_that_may_not_teach_are_answered_by_what_the_others_taught(
    encoder, gallery, batches
):
    session = Session(encoder, gallery, Tent(), lr=0.01, score_from="after", guard=Guard())
    session.answer(batches[0])
    mixed = [*batches[1][:9], *batches[1][:3]]
    found = session.answer(mixed).scores()
    again = session.answer(mixed, adapt=False).scores()
    assert torch.allclose(found, again, atol=1e-6)


def test_a_guard_shares_the_source_forward_of_decoupling(cost):
    found = cost(Decoupled(Tent()), guard=Guard(), lr=1e-5)
    assert [forwards for forwards, _ in found] == [3, 4, 4]


def test_shadow_costs_one_source_forward_a_batch(cost):
    assert cost(Tent(), mode="shadow") == [(3, 3), (4, 3), (4, 3)]


def test_watching_angles_costs_what_decoupling_does(cost):
    assert cost(Tent(), watch_angle=True) == [(3, 5), (4, 6), (4, 6)]


def test_an_answer_from_after_the_update_is_one_more_forward(cost):
    assert cost(Tent(), score_from="after") == [(4, 3)] * 3
    assert cost(Tent(), score_from="before") == [(3, 3)] * 3


def test_chunks_redo_the_forward_for_the_product(cost):
    # twelve queries in chunks of five are three parts: seen once, all but the last once more
    assert cost(Tent(), steps=2, chunk=5) == [(2 * (3 + 2), 2 * 3)] * 3


def test_one_chunk_is_gone_before_the_next_is_seen(encoder, gallery, batches, monkeypatch):
    seen, alive = [], []

    def run(self, params, part):
        alive.append([one for one in seen if one() is not None])
        found = forward(self, params, part)
        seen.append(weakref.ref(found[0]))
        return found

    forward = Batch._run
    monkeypatch.setattr(Batch, "_run", run)
    Session(encoder, gallery, REST(), lr=0.01, chunk=5, guard=None).answer(batches[0])
    assert alive == [[]] * 15


def test_the_shared_part_is_run_once_a_batch(gallery, batches, count):
    session = Session(SharedToy(), gallery, REST(decouple=True), lr=0.01)
    for batch in batches[:2]:
        count.restart()
        session.answer(batch)
        assert count.shared == 1


def test_an_answer_without_adapting_costs_one_forward(encoder, gallery, batches, count):
    Session(encoder, gallery, REST(decouple=True)).answer(batches[0], adapt=False)
    assert (count.forwards, count.products) == (1, 0)


@pytest.mark.parametrize("method", [REST(), REST(decouple=True), TCR()])
def test_rest_and_tcr_never_ask_for_the_whole_gallery(encoder, gallery, batches, method):
    far, near = (Session(encoder, g, method, lr=0.01) for g in (Remote(gallery), gallery))
    for batch in batches:
        assert torch.equal(far.answer(batch).top(5).scores, near.answer(batch).top(5).scores)


@pytest.mark.parametrize("kind", [Tent(), REST(), REST(decouple=True), METHODS["come"]()])
@pytest.mark.parametrize("chunk", [1, 5, 8])
def test_chunks_give_the_gradient_of_the_whole_batch(clean, kind, chunk):
    toy = Toy()
    gallery, (batch, after) = Gallery.build(toy, clean), stream(clean, 2, size=16)

    def learnt(size):
        session = Session(toy, gallery, kind, lr=0.01, steps=1, chunk=size, guard=None)
        session.answer(batch)
        session.answer(after)  # away from the source, so that decoupling acts
        return session.state.adapted.first

    whole = learnt(None)
    difference = torch.linalg.vector_norm(learnt(chunk) - whole)
    assert difference <= 3e-5 * torch.linalg.vector_norm(whole)  # rounding differs between CPUs


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("wrap", [lambda method: method, Decoupled], ids=["plain", "decoupled"])
def test_nothing_a_session_remembers_or_answers_holds_a_graph(
    encoder, gallery, batches, name, wrap
):
    session = Session(encoder, gallery, wrap(METHODS[name]()), lr=0.01, gather=None)
    for batch in batches[:3]:
        answer = session.answer(batch)
        answer.top(5)
    held = tensors_in(memory_of(session), session.adaptation.source, answer)
    assert held
    assert [one for one in held if one.requires_grad or one.grad_fn is not None] == []


class VisionSized(Encoder):
    """As many adapted parameters and dimensions as a ViT-B image tower, at no cost."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(768) for _ in range(26))
        self.head = nn.Parameter(torch.randn(768, 512, generator=torch.Generator().manual_seed(0)))

    def prepare(self, found):
        return torch.stack(list(found)).repeat(1, 77)[:, :768]

    def forward(self, prepared):
        for norm in self.norms:
            prepared = norm(prepared)
        return normalize(prepared @ self.head, dim=1)


@pytest.mark.parametrize("name", ["tent", "rest", "sar"])
def test_a_session_holds_at_most_eight_times_its_adapted_parameters(name):
    encoder = VisionSized()
    gallery = Gallery.build(encoder, items(80))
    session = Session(encoder, gallery, METHODS[name](), steps=1)
    for batch in stream(items(80), 3, size=64):
        session.answer(batch)
    parts = [session.state, session._updater.now.previous, session.adaptation.source]
    storages = _storages(parts)
    memory = _storages([session.state.memory, session._updater.now.previous.memory])
    adapted = session.state.adapted.values.nbytes
    assert adapted == 26 * 2 * 768 * 4
    assert sum(storages.values()) - sum(memory.values()) <= 8 * adapted


def _storages(value) -> dict[int, int]:
    found = [one.untyped_storage() for one in tensors_in(value)]
    return {storage.data_ptr(): storage.nbytes() for storage in found}


@pytest.mark.parametrize("method", [Tent(), Decoupled(Tent())], ids=lambda one: one.name)
def test_a_part_of_a_batch_takes_the_source_s_vectors_from_the_whole(
    method, encoder, gallery, batches, count
):
    session = Session(encoder, gallery, method, lr=1e-5)
    session.answer(batches[0])
    count.restart()
    session.answer([*batches[1][:10], *batches[1][:2]])
    assert count.forwards == 3 + 1 + 1  # steps, the source, the answer


def test_a_query_that_is_too_few_to_learn_from_costs_one_forward_of_each_model(
    encoder, gallery, batches, count
):
    session = Session(encoder, gallery, REST(), lr=1e-4, hubs=Hubs())
    session.answer(batches[0])
    assert session.state.adapted.updates == 3
    count.restart()
    session.answer(batches[1][:1])
    assert count.forwards == 2
