"""One forward for many sessions: the answers of each session by itself, whatever it has learnt."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from miniature import ITEM, SeveralVectors, SharedToy, Toy, items, memory_of, same, stream
from queryshift import (
    METHODS,
    REST,
    TSA,
    Encoder,
    Frozen,
    Gallery,
    Guard,
    Session,
    Tent,
    answer_many,
    load,
)
from queryshift.errors import BadInput, CannotAdapt
from queryshift.lab.datasets.tangram import tangram


class Stacked(Encoder):
    """A body of any layers between two linear ones."""

    def __init__(self, *body, width=8):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.first, self.last = nn.Linear(ITEM, width), nn.Linear(width, 8)
        self.body = nn.Sequential(*body)

    def prepare(self, batch):
        return torch.stack(list(batch))

    def forward(self, prepared):
        hidden = self.body(self.first(prepared))
        return normalize(self.last(hidden.reshape(len(prepared), -1)), dim=1)


class OwnLayerNorm(nn.Module):
    """A norm layer that torch knows nothing of, with a shift under a name of its own."""

    def __init__(self, width):
        super().__init__()
        self.weight, self.beta = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, values):
        centred = values - values.mean(-1, keepdim=True)
        return centred / centred.std(-1, keepdim=True) * self.weight + 2 * self.beta


class OwnRMSNorm(nn.Module):
    """A norm layer whose weight is what it adds to 1."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, values):
        return values * values.pow(2).mean(-1, keepdim=True).rsqrt() * (1 + self.weight)


class OddLayerNorm(OwnLayerNorm):
    """A norm layer that does not depend on its weight as others do."""

    def forward(self, values):
        return super().forward(values) ** 2


class ChannelsFirst(nn.LayerNorm):
    """A norm layer over the axis behind the items, as those of convolutions."""

    def forward(self, values):
        return super().forward(values.transpose(1, 2)).transpose(1, 2)


class Frames(Stacked):
    """Each item is two rows of the norm layer, side by side."""

    def forward(self, prepared):
        both = torch.stack([prepared, prepared.flip(1)], dim=1).flatten(0, 1)
        hidden = self.body(self.first(both)).view(len(prepared), 2, -1)
        return normalize(self.last(hidden.mean(1)), dim=1)


class SequenceFirst(Stacked):
    """The items are the second axis, as in some towers written long ago."""

    def forward(self, prepared):
        tokens = torch.stack([prepared, prepared.flip(1), -prepared, prepared.roll(1, 1)])
        hidden = self.body(self.first(tokens))
        return normalize(self.last(torch.tanh(hidden).mean(0)), dim=1)


def sessions_of(encoder, clean, methods, rounds=1, **settings):
    gallery = Gallery.build(encoder, clean, ids=[f"c{i}" for i in range(len(clean))])
    found = []
    for number, method in enumerate(methods):
        session = Session(encoder, gallery, method, lr=0.05, **{"guard": None, **settings})
        for batch in stream(clean, rounds, seed=50 * number):
            session.answer(batch)
        found.append(session)
    return found


def assert_as_alone(sessions, batches, **left_out):
    for hits in (None, 5):
        assert_same_answers(
            answer_many(sessions, batches, **left_out, hits=hits), sessions, batches, **left_out
        )


def assert_same_answers(together, sessions, batches, **left_out):
    for number, (session, batch) in enumerate(zip(sessions, batches, strict=True)):
        ids = left_out["exclude"][number] if left_out else None
        alone = session.fork().answer(batch, adapt=False, exclude=ids)
        answer = together[number]
        assert torch.allclose(answer.vectors, alone.vectors, atol=1e-6)
        pairs = [(answer, alone), (answer.source, alone.source), (answer.adapted, alone.adapted)]
        for found, expected in pairs:
            assert found.top(5).ids == expected.top(5).ids
            # where both models answer, scores are probabilities: steeper than the vectors
            assert torch.allclose(found.top(5).scores, expected.top(5).scores, atol=1e-4)


def ragged(clean, sizes=(5, 1, 12, 3)):
    return [batch[:size] for batch, size in zip(stream(clean, len(sizes)), sizes, strict=True)]


@pytest.mark.parametrize("kind", [Toy, SharedToy])
def test_many_sessions_answer_as_each_would_alone(clean, kind):
    sessions = sessions_of(kind(), clean, [REST()] * 4, rounds=2)
    assert_as_alone(sessions, ragged(clean))
    vectors = [one.vectors for one in answer_many(sessions, [clean[:3]] * 4)]
    assert not torch.allclose(vectors[0], vectors[1], atol=1e-3)  # they have learnt apart


@pytest.mark.parametrize("name", METHODS)
def test_every_method_among_others(clean, name):
    methods = [METHODS[name](), Tent(), Frozen(), METHODS[name]()]
    assert_as_alone(sessions_of(Toy(), clean, methods), ragged(clean))


@pytest.mark.parametrize(
    "encoder",
    [
        Stacked(nn.LayerNorm(8), nn.GELU(), nn.RMSNorm(8)),
        Stacked(nn.LayerNorm(8, bias=False), nn.Tanh()),
        Stacked(nn.GroupNorm(2, 8), nn.GELU()),
        Stacked(nn.Unflatten(1, (4, 2)), nn.GroupNorm(2, 4), nn.GELU()),
        Stacked(nn.Unflatten(1, (4, 2)), nn.LayerNorm((4, 2)), nn.GELU()),
        Stacked(nn.Unflatten(1, (4, 2)), nn.LayerNorm(2), nn.GELU()),
        Frames(nn.LayerNorm(8), nn.GELU()),
        Stacked(nn.BatchNorm1d(8), nn.GELU()),
        Stacked(nn.Unflatten(1, (4, 2)), nn.BatchNorm1d(4), nn.GELU()),
        Stacked(OwnLayerNorm(8), nn.GELU(), OwnRMSNorm(8)),
        Toy(dtype=torch.float64),
    ],
    ids=[
        "layer-rms",
        "no-bias",
        "group",
        "group-3d",
        "two-axes",
        "rows",
        "frames",
        "batch",
        "batch-3d",
        "own",
        "float64",
    ],
)
def test_every_kind_of_norm_layer(clean, encoder):
    assert_as_alone(sessions_of(encoder, clean, [Tent()] * 3), ragged(clean, (2, 4, 1)))


@pytest.mark.parametrize(
    ("encoder", "text"),
    [
        (Stacked(OddLayerNorm(8), nn.GELU()), "has a norm layer of a kind of its own"),
        (
            Stacked(nn.Unflatten(1, (4, 2)), ChannelsFirst(4), nn.GELU()),
            "has a norm layer of a kind of its own",
        ),
        (
            Stacked(nn.LayerNorm(8), nn.BatchNorm1d(8, affine=False, track_running_stats=False)),
            "is a BatchNorm without running statistics, .* ask each session by itself",
        ),
        (SequenceFirst(nn.LayerNorm(8)), "does not keep its items on the first axis"),
    ],
)
def test_encoders_that_cannot_are_refused(clean, encoder, text):
    sessions = sessions_of(encoder, clean, [Tent()] * 2)
    with pytest.raises(CannotAdapt, match=text):
        answer_many(sessions, [clean[:2]] * 2)
    assert len(answer_many(sessions[:1], [clean[:2]])[0].top(1)) == 2  # one alone is no mixture


@pytest.mark.parametrize("query", ["image", "text"])
def test_towers_that_pad_their_queries(query):
    model, other = load("tangram"), "text" if query == "image" else "image"
    world = tangram(query, count=24)
    gallery = Gallery.build(model[other], world.candidates[:24])
    sessions = [Session(model[query], gallery, REST()) for _ in range(3)]
    for number, session in enumerate(sessions[:2]):
        session.answer(world.queries[8 * number : 8 * number + 8])
    assert_as_alone(sessions, [world.queries[:2], world.queries[5:10], world.queries[20:21]])


def test_half_precision(clean):
    sessions = sessions_of(Toy(dtype=torch.bfloat16), clean, [Tent()] * 3)
    for session, found in zip(sessions, answer_many(sessions, [clean[:6]] * 3), strict=True):
        alone = session.answer(clean[:6], adapt=False).vectors
        assert torch.allclose(found.vectors, alone, atol=2e-2)  # products round by their shapes


def test_galleries_of_their_own_and_one_session_twice(clean):
    encoder = Toy()
    first, second = sessions_of(encoder, clean, [REST()] * 2)
    second.gallery = Gallery.build(encoder, items(9, seed=4))
    assert_as_alone([first, second, first], ragged(clean, (3, 2, 4)))


def test_candidates_of_several_vectors(clean):
    several = SeveralVectors()
    gallery = Gallery.build(several, clean)
    encoder = Toy()
    sessions = [Session(encoder, gallery, REST(), lr=0.05) for _ in range(2)]
    sessions[0].answer(clean[:12])
    assert_as_alone(sessions, ragged(clean, (3, 2)))


def test_candidates_to_leave_out(clean):
    sessions = sessions_of(Toy(), clean, [REST()] * 2)
    left_out = [[["c1", "c2"], "c7", None], None]
    assert_as_alone(sessions, ragged(clean, (3, 2)), exclude=left_out)


def test_each_session_leaves_out_its_own_candidates_only(clean):
    """Each query leaves out what it would find first: another's exclusions change its answer."""
    sessions, batches = sessions_of(Toy(), clean, [REST()] * 3), ragged(clean, (3, 2, 4))
    left_out = [
        [
            row[: 1 + query]
            for query, row in enumerate(session.answer(batch, adapt=False).top(5).ids)
        ]
        for session, batch in zip(sessions, batches, strict=True)
    ]
    assert_as_alone(sessions, batches, exclude=left_out)
    assert_as_alone(sessions, batches, exclude=[None, *left_out[1:]])


def test_a_session_that_leaves_out_almost_all_shortens_nobody_elses_answer(clean):
    sessions = sessions_of(Toy(), clean, [REST()] * 2)
    almost_all = [[f"c{number}" for number in range(57)]]
    assert_as_alone(sessions, ragged(clean, (1, 2)), exclude=[almost_all, None])
    short, other = answer_many(sessions, ragged(clean, (1, 2)), [almost_all, None], hits=5)
    assert short.top(5).positions.shape == (1, 3) and other.top(5).positions.shape == (2, 5)


@pytest.mark.parametrize("kind", [Toy, SharedToy])
@pytest.mark.parametrize("method", [Tent(), TSA()], ids=["tent", "tsa"])
def test_a_shadow_answers_with_the_source(clean, kind, method):
    sessions = sessions_of(kind(), clean, [REST(), method], mode="shadow")
    assert_as_alone(sessions, ragged(clean, (3, 2)))


@pytest.mark.parametrize(
    ("exclude", "text"), [([None], "exclusions for 1 of 2 sessions"), ("ab", "got 'a' as exclude")]
)
def test_exclusions_that_do_not_fit(clean, exclude, text):
    with pytest.raises(BadInput, match=text):
        answer_many(sessions_of(Toy(), clean, [REST()] * 2), [clean[:2]] * 2, exclude=exclude)


def test_what_are_no_sessions(clean):
    (session,) = sessions_of(Toy(), clean, [REST()])
    for wrong in (session, [session, 1]):
        with pytest.raises(BadInput, match="expected a list of sessions, and a batch for each"):
            answer_many(wrong, [clean[:2]] * 2)


def test_it_is_one_forward_and_changes_nothing(clean, count):
    sessions = sessions_of(Toy(), clean, [REST()] * 4)
    answer_many(sessions, [clean[:2]] * 4)  # the encoder is tried out once
    before = [memory_of(session.fork()) for session in sessions]
    count.restart()
    found = answer_many(sessions, [clean[:2]] * 4)
    assert (count.forwards, count.products) == (1, 0)
    assert not any(one.vectors.requires_grad for one in found)
    assert same([memory_of(session) for session in sessions], before)


def test_an_encoder_that_moved_is_tried_out_again(clean, count):
    encoder = Toy()
    sessions = sessions_of(encoder, clean, [REST()] * 2)
    forwards = []
    for _ in range(2):
        encoder.to(torch.float32)
        count.restart()
        answer_many(sessions, [clean[:2]] * 2)
        forwards.append(count.forwards)
    assert forwards == [4, 4]


def test_mistakes_are_explained(encoder, gallery, clean):
    session, other = Session(encoder, gallery, Tent()), Session(Toy(), gallery, Tent())
    with pytest.raises(BadInput, match="1 sessions and 2 batches"):
        answer_many([session], [clean[:1]] * 2)
    with pytest.raises(BadInput, match="0 sessions"):
        answer_many([], [])
    with pytest.raises(BadInput, match="empty batch"):
        answer_many([session, session], [clean[:1], []])
    with pytest.raises(BadInput, match="different encoders"):
        answer_many([session, other], [clean[:1]] * 2)


def test_one_update_is_enough_to_compare_both_models(clean):
    sessions = sessions_of(Toy(), clean, [REST()] * 2, guard=Guard(), steps=1)
    for session in sessions:
        assert session.state.adapted.updates == 1
        session.restore(replace(session.state, chances=torch.ones(64)))
    assert_as_alone(sessions, ragged(clean, (3, 2)))
    (answer, _) = answer_many(sessions, [clean[:2]] * 2)
    assert not torch.allclose(answer.scores(), answer.source.scores(), atol=1e-3)


def test_two_queries_are_enough_to_try_an_encoder(clean):
    sessions = sessions_of(SequenceFirst(nn.LayerNorm(8)), clean, [Tent()] * 2)
    with pytest.raises(CannotAdapt, match="does not keep its items on the first axis"):
        answer_many(sessions, [clean[:1]] * 2)


@pytest.mark.parametrize("candidates", [60, 150], ids=["below the depth", "above it"])
def test_both_models_of_many_sessions_are_searched_once_each(clean, monkeypatch, candidates):
    sessions = sessions_of(Toy(), clean, [REST()] * 3, guard=Guard())
    larger = Gallery.build(sessions[0].encoder, items(candidates))
    for session in sessions:
        session.gallery = larger
        session.restore(replace(session.state, chances=torch.ones(64)))
    counts, search = [], Gallery.search
    monkeypatch.setattr(Gallery, "search", lambda *of: counts.append(of[2]) or search(*of))
    for answer in answer_many(sessions, [clean[:2]] * 3, hits=5):
        answer.top(5)
    assert len(counts) == 2
