"""What every method must keep, whatever it does: read from the table of methods."""

import pytest
import torch

from miniature import DIMENSION, SeveralVectors, Toy, memory_of, same, stream
from queryshift import METHODS, Decoupled, Gallery, Refined, Session
from queryshift.errors import UnknownName

EVERY = {name: METHODS[name]() for name in METHODS}
EVERY["rest+decoupled"] = METHODS["rest"](decouple=True)
EVERY["eata"] = METHODS["eata"](redundancy=0.9)  # sixty candidates: much looks familiar
EVERY["sar"] = METHODS["sar"](reset_below=None)
EVERY["pl"] = METHODS["pl"](confidence=0.3)
WRAPPED = {
    **{f"{name}, decoupled": Decoupled(method) for name, method in EVERY.items()},
    **{f"{name}, refined": Refined(method) for name, method in EVERY.items()},
    "tent, refined, decoupled": Decoupled(Refined(EVERY["tent"])),
    "tent, decoupled, refined": Refined(Decoupled(EVERY["tent"])),
}
TRAINS_NOTHING = ("frozen", "tcr_untrained")

every_method = pytest.mark.parametrize("name", EVERY)
every_training_method = pytest.mark.parametrize(
    "name", [name for name in EVERY if name not in TRAINS_NOTHING]
)


def stream_of(session, batches):
    return [session.answer(batch).top(5) for batch in batches]


@every_method
class TestEveryMethod:
    def test_leaves_encoder_and_gallery_untouched(self, name, clean, batches):
        toy = Toy()
        gallery = Gallery.build(toy, clean)
        before = {n: v.clone() for n, v in toy.state_dict().items()}, gallery.vectors.clone()
        stream_of(Session(toy, gallery, EVERY[name], lr=0.01), batches)
        assert same((dict(toy.state_dict()), gallery.vectors), before)
        assert all(one.requires_grad and one.grad is None for one in toy.parameters())

    def test_reset_forgets(self, name, encoder, gallery, batches):
        session = Session(encoder, gallery, EVERY[name], lr=0.01)
        first = stream_of(session, batches)
        session.reset()
        assert session.history == []
        assert same(memory_of(session), memory_of(Session(encoder, gallery, EVERY[name], lr=0.01)))
        assert same(stream_of(session, batches), first)

    def test_sessions_do_not_share_state(self, name, encoder, gallery, batches):
        alone = stream_of(Session(encoder, gallery, EVERY[name], lr=0.01), batches)
        one, other = (Session(encoder, gallery, EVERY[name], lr=0.01) for _ in range(2))
        mixed = []
        for batch in batches:
            mixed.append(one.answer(batch).top(5))
            other.answer(batches[-1])
        assert same(mixed, alone)

    def test_works_with_candidates_of_several_vectors(self, name, encoder, clean, batches):
        gallery = Gallery.build(SeveralVectors(), clean)
        session = Session(encoder, gallery, EVERY[name], lr=0.01)
        assert session.answer(batches[0]).top(3).vectors.shape[:3] == (12, 3, 3)

    def test_works_with_one_candidate_and_more_neighbours_than_candidates(
        self, name, encoder, batches
    ):
        for size in (1, 3):
            vectors = torch.eye(DIMENSION)[:size]
            session = Session(encoder, Gallery.from_vectors(range(size), vectors), EVERY[name])
            for batch in batches[:2]:
                assert session.answer(batch).top(10).positions.shape == (12, size)

    def test_answers_a_single_query(self, name, encoder, gallery, batches):
        session = Session(encoder, gallery, EVERY[name], lr=0.01)
        for query in batches[0][:3]:
            assert len(session.answer([query]).top(4).ids[0]) == 4

    def test_its_name_leads_back_to_it(self, name, encoder):
        assert EVERY[name].name.split("+")[0] in METHODS
        assert EVERY[name].resolved(encoder).lr is not None

    def test_answers_in_order_of_score(self, name, encoder, gallery, batches):
        scores = Session(encoder, gallery, EVERY[name], lr=0.01).answer(batches[0]).top(20).scores
        assert torch.equal(scores, scores.sort(dim=1, descending=True).values)


@every_training_method
class TestEveryTrainingMethod:
    def test_moves_what_the_queries_reach_and_nothing_else(self, name, encoder, gallery, batches):
        session = Session(encoder, gallery, EVERY[name], lr=0.01)
        stream_of(session, batches)
        source = session.adaptation.source
        moved = {n for n, value in session.params.items() if not torch.equal(value, source[n])}
        assert moved
        assert not any(n.startswith("spare") for n in session.params)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
    def test_adapts_encoders_of_other_precision(self, name, dtype, clean, batches):
        toy = Toy(dtype=dtype)
        session = Session(toy, Gallery.build(toy, clean), EVERY[name], lr=1e-3)
        session.answer(batches[0], adapt=False)
        before = session.answer(batches[0], adapt=False).vectors
        stream_of(session, batches)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        assert {value.dtype for value in session.params.values()} == {wide}
        assert not torch.equal(session.answer(batches[0], adapt=False).vectors, before)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
    @pytest.mark.parametrize("wide", [torch.float32, torch.float64])
    def test_works_with_a_gallery_of_any_precision(self, name, dtype, wide, clean, batches):
        vectors = Toy().encode(clean).detach().to(dtype)
        gallery = Gallery.from_vectors(range(len(clean)), vectors)
        session = Session(Toy(dtype=wide), gallery, EVERY[name], lr=0.01)
        stream_of(session, batches[:3])
        assert session.state.adapted.updates > 0

    @pytest.mark.gpu
    def test_agrees_between_cpu_and_cuda(self, name, clean, batches):
        found = {}
        for device in ("cpu", "cuda"):
            toy = Toy(dtype=torch.float64).to(device)
            session = Session(toy, Gallery.build(toy, clean), EVERY[name], lr=1e-3)
            stream_of(session, batches)
            found[device] = torch.cat([v.flatten().cpu() for v in session.params.values()])
        assert torch.allclose(found["cpu"], found["cuda"], rtol=1e-6, atol=1e-8)


@pytest.mark.gpu
@pytest.mark.parametrize("places", [("cuda", "cpu"), ("cpu", "cuda")])
def test_encoder_and_gallery_may_lie_on_different_devices(places, clean, batches):
    answers = []
    for at, gallery_at in (("cpu", "cpu"), places):
        toy = Toy(dtype=torch.float64).to(at)
        gallery = Gallery.build(toy, clean).to(gallery_at)
        session = Session(toy, gallery, EVERY["rest+decoupled"], lr=1e-3)
        answers.append(stream_of(session, batches)[-1])
    assert answers[1].scores.device.type == "cpu"
    assert torch.allclose(answers[0].scores, answers[1].scores, atol=1e-8)


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("exclude", [False, True], ids=["all", "some left out"])
def test_any_method_can_be_wrapped(name, exclude, encoder, gallery, batches):
    session = Session(encoder, gallery, WRAPPED[name], lr=0.01, watch_angle=True)
    for batch in batches[:3]:
        left_out = [["c1", "c2"]] * len(batch) if exclude else None
        found = session.answer(batch, exclude=left_out).top(60)
        assert torch.isfinite(found.scores).all()
        assert not exclude or not {"c1", "c2"} & {one for row in found.ids for one in row}


def test_randomness_comes_from_the_seed(encoder, gallery, batches):
    def scores(seed):
        session = Session(encoder, gallery, EVERY["tsa"], lr=0.01, seed=seed)
        return stream_of(session, batches)[-1].scores

    assert torch.equal(scores(1), scores(1))
    assert not torch.equal(scores(1), scores(2))


def test_the_same_stream_twice_gives_the_same_answers(encoder, clean, gallery):
    batches = stream(clean, 12, size=16)
    one, other = (Session(encoder, gallery, EVERY["rest+decoupled"]) for _ in range(2))
    assert same(stream_of(one, batches), stream_of(other, batches))


def test_an_unknown_method_names_the_nearest():
    with pytest.raises(UnknownName, match=r'no method "rset"; did you mean "rest"'):
        METHODS["rset"]
