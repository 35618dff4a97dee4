"""Galleries in engines, over the engine that docs/engines.md shows; and the contract of all."""

import numpy as np
import pytest
import torch
from contract import CANDIDATES, DIMENSION, GalleryContract, rest_stream, some_queries
from reference_engine import ArrayEngine

import queryshift as qs
from queryshift.errors import BadInput, EngineLost, GalleryMismatch, NeedsVectors, UnknownName
from queryshift.galleries import EngineGallery, Found, Gallery, engine
from queryshift.galleries.exclusions import excluded_pairs
from queryshift.galleries.seen_candidates import best_of_pieces
from queryshift.lab import tangram
from queryshift.models import matcher
from toy import ToyEncoder, toy_gallery, toy_queries


class TestGalleryInMemory(GalleryContract):
    def make(self, ids, vectors):
        return Gallery(ids, torch.tensor(vectors)[:, None])


class TestReferenceEngine(GalleryContract):
    def make(self, ids, vectors):
        return ArrayEngine(ids, vectors)


@pytest.fixture
def memory():
    return toy_gallery(ToyEncoder(), CANDIDATES)


@pytest.fixture
def there(memory, monkeypatch):
    monkeypatch.setattr(engine, "FIRST_WAIT", 0.001)
    return ArrayEngine(memory.ids, memory.vectors[:, 0].numpy())


def stored(vectors, **options):
    vectors = np.array(vectors, dtype=np.float32)
    return ArrayEngine(range(len(vectors)), vectors, **options)


def test_vectors_of_a_cosine_engine_are_scaled_and_others_refused():
    long = stored([[3, 4], [0, 2]])
    assert torch.allclose(long.search(torch.tensor([[0.6, 0.8]]), 1).scores, torch.ones(1, 1))
    long.metric = "inner product"
    with pytest.raises(BadInput, match=r"ranks by inner product .* length 2 to 5, so"):
        long.search(torch.tensor([[0.6, 0.8]]), 2)


@pytest.mark.parametrize(("length", "refused"), [(1.0, False), (1.005, False), (1.02, True)])
def test_vectors_of_an_inner_product_may_be_rounded(length, refused):
    rounded = stored([[length, 0], [0, 1]])
    rounded.metric = "inner product"
    if refused:
        with pytest.raises(BadInput, match="long ones come first"):
            rounded.search(torch.tensor([[0.6, 0.8]]), 2)
    else:
        assert rounded.search(torch.tensor([[0.6, 0.8]]), 2).ids == [[1, 0]]


class Several(ArrayEngine):
    """Two vectors per candidate: its own, and one that is its opposite."""

    def find(self, queries, count):
        found = super().find(queries, count)
        return [Found(hits.ids, np.stack((-hits.vectors, hits.vectors), axis=1)) for hits in found]


@pytest.mark.parametrize("scale", [1, 3])
def test_an_engine_may_give_several_vectors_per_candidate(scale):
    several = Several(range(2), scale * np.eye(2, dtype=np.float32))
    hits = several.search(torch.tensor([[0.6, 0.8]]), 2)
    assert hits.ids == [[1, 0]] and hits.vectors.shape == (1, 2, 2, 2)
    assert torch.allclose(hits.scores, torch.tensor([[0.8, 0.6]]))


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [([[0, 0], [1, 0]], "zero vector"), ([[np.nan, 0], [1, 0]], "NaN|finite")],
)
def test_vectors_that_cannot_be_searched_are_refused(vectors, reason):
    with pytest.raises(BadInput, match=reason):
        stored(vectors).search(torch.tensor([[1.0, 0.0]]), 2)
    with pytest.raises(BadInput, match=reason):
        stored(vectors).centroids(1)


def test_a_collection_of_another_dimension_is_refused(there):
    there.dimension = DIMENSION + 1
    with pytest.raises(GalleryMismatch, match="is it the right collection"):
        there.centroids(1)


def test_an_empty_engine_says_so():
    empty = stored(np.empty((0, 2)))
    with pytest.raises(BadInput, match="found no candidate"):
        empty.search(torch.tensor([[1.0, 0.0]]), 2)
    with pytest.raises(BadInput, match="gallery is empty"):
        empty.centroids(2)


class Sparse(ArrayEngine):
    """An index that finds only one candidate for the first query of a call."""

    def find(self, queries, count):
        first, *others = super().find(queries, count)
        return [Found(first.ids[:1], first.vectors[:1]), *others]


def test_fewer_hits_than_asked_are_allowed(memory):
    sparse = Sparse(memory.ids, memory.vectors[:, 0].numpy())
    assert sparse.search(some_queries(1), 5).positions.shape == (1, 1)
    hits = sparse.search(some_queries(3), 5)
    assert hits.positions.shape == (3, 5)  # what was found for the others is there for all
    assert bool((hits.scores.diff(dim=1) <= 0).all())


def test_one_round_trip_per_batch_and_a_second_for_the_source_model(there):
    session = qs.Session(ToyEncoder(), there, qs.REST(lr=1e-2), guard=None)
    batches = [list(batch) for batch in toy_queries(3, 12, CANDIDATES)]
    session.answer(batches[0])
    for batch in batches[1:]:
        before = there.trips
        answer = session.answer(batch)
        assert answer.top(10).ids and answer.top(100).ids and there.trips == before + 1
    assert answer.source.top(10).ids and there.trips == before + 2


def test_exclusions_of_known_candidates_cost_no_trip(there, memory):
    batch = list(toy_queries(1, 3, CANDIDATES)[0])
    session = qs.Session(ToyEncoder(), there, qs.REST())
    here = qs.Session(ToyEncoder(), memory, qs.REST())
    exclude = [[row[0]] for row in here.answer(batch, adapt=False).top(1).ids]
    first = session.answer(batch, exclude=exclude).top(5).ids
    assert first == here.answer(batch, exclude=exclude).top(5).ids
    before = there.trips
    session.answer(batch, exclude=exclude)
    assert there.trips == before + 2  # one search for each model


def test_each_query_finds_enough_however_many_candidates_it_leaves_out(there, memory):
    queries = some_queries(3)
    found = memory.search(queries, 20).ids
    left_out = [[found[0][0]], found[1], None]  # one, twenty, none
    there_hits, here_hits = (
        gallery.search(queries, 5, excluded_pairs(left_out, 3, gallery))
        for gallery in (there, memory)
    )
    assert there_hits.ids == here_hits.ids
    assert torch.allclose(there_hits.scores, here_hits.scores)


def test_a_refresh_counts_the_candidates_again(there):
    assert len(there) == CANDIDATES
    there.stored = there.stored[:60]
    assert len(there) == CANDIDATES  # as of before
    there.refresh()
    assert len(there) == 60


def test_the_default_learns_over_an_engine_where_candidates_are_left_out(there):
    batch = list(toy_queries(1, 12, CANDIDATES)[0])
    session = qs.Session(ToyEncoder(), there)
    answer = session.answer(batch, exclude=[[query] for query in range(12)])
    assert session.state.adapted.updates == 3
    assert all(query not in row for query, row in enumerate(answer.top(10).ids))


def test_ids_that_are_gone_are_found_out_in_two_trips(there):
    batch = list(toy_queries(1, 6, CANDIDATES)[0])
    session = qs.Session(ToyEncoder(), there, qs.REST(), depth=20)
    session.answer(batch)
    before = there.trips
    exclude = [[query, 10_000 + query, 20_000 + query] for query in range(6)]
    answer = session.answer(batch, exclude=exclude, missing="ignore")
    assert there.trips <= before + 4  # which are there, twice; their handles; and the search
    assert all(query not in row for query, row in enumerate(answer.top(10).ids))


@pytest.mark.parametrize("depth", [50, 100])
def test_the_pool_learns_what_three_searches_learn(memory, depth):
    larger = toy_gallery(ToyEncoder(), 2000)
    engine_of_2000 = ArrayEngine(larger.ids, larger.vectors[:, 0].numpy())
    parameters = []
    for gallery in (larger, engine_of_2000):
        session = qs.Session(ToyEncoder(), gallery, qs.REST(lr=1e-2), depth=depth)
        for batch in toy_queries(8, 16, 2000):
            session.answer(list(batch))
        parameters.append(session.state.adapted.values)
    assert torch.equal(*parameters)


def test_more_hits_than_the_depth_are_fetched(there, memory):
    batch = list(toy_queries(1, 3, CANDIDATES)[0])
    answers = [
        qs.Session(ToyEncoder(), one, qs.Frozen(), depth=5).answer(batch) for one in (there, memory)
    ]
    for count in (3, 40, 20):
        there_ids, here_ids = (answer.top(count).ids for answer in answers)
        assert there_ids == here_ids


def test_many_sessions_of_a_gallery_are_one_trip(there, memory):
    batches = [list(batch) for batch in toy_queries(8, 4, CANDIDATES)]
    sessions = [qs.Session(ToyEncoder(), there, qs.REST(lr=1e-2))]
    sessions[0].answer(batches[0])
    sessions += [sessions[0].fork() for _ in range(7)]
    exclude = [[[one], None, None, [one, one + 1]] for one in range(8)]
    alone = [
        session.answer(batch, adapt=False, exclude=ids).top(5).ids
        for session, batch, ids in zip(sessions, batches, exclude, strict=True)
    ]
    before = there.trips
    answers = qs.answer_many(sessions, batches, exclude)
    assert [answer.top(5).ids for answer in answers] == alone
    assert there.trips == before + 2  # one search for each model
    fresh = ArrayEngine(memory.ids, memory.vectors[:, 0].numpy())
    for session in sessions:
        session.gallery = fresh
    before = fresh.trips
    [answer.top(5) for answer in qs.answer_many(sessions, batches, exclude)]
    assert fresh.trips <= before + 4  # all ids at once, the number of candidates, two searches
    read_once = [iter([iter(one) if one else None for one in each]) for each in exclude]
    assert [one.top(5).ids for one in qs.answer_many(sessions, batches, read_once)] == alone


class Slow(ArrayEngine):
    """An engine that does not get through more than so many hits within its timeout."""

    most = 100

    def find(self, queries, count):
        if len(queries) * count > self.most:
            self.trips += 1
            raise EngineLost("the deadline has passed")
        return super().find(queries, count)


class TestTooMuchForOneCall:
    def test_is_split_until_the_engine_gets_through_it(self, memory, monkeypatch):
        monkeypatch.setattr(engine, "FIRST_WAIT", 0.0)
        monkeypatch.setattr(engine, "HITS_AT_ONCE", 800)
        slow = Slow(memory.ids, memory.vectors[:, 0].numpy())
        queries = some_queries(40)
        found, expected = slow.search(queries, 20), memory.search(queries, 20)
        assert found.ids == expected.ids
        assert torch.allclose(found.scores, expected.scores)
        slow.most = 10
        with pytest.raises(EngineLost, match=r"deadline has passed \(4 tries\)"):
            slow.search(queries, 20)

    def test_a_slow_call_makes_the_next_ones_smaller(self, memory, monkeypatch):
        there, clock = ArrayEngine(memory.ids, memory.vectors[:, 0].numpy(), timeout=10.0), [0.0]
        monkeypatch.setattr(engine, "HITS_AT_ONCE", 400)
        there._at_once, asked = 400, []
        find = there.find

        def timed(queries, count):
            asked.append(len(queries))
            clock[0] += 0.5 * len(queries)
            return find(queries, count)

        monkeypatch.setattr(there, "find", timed)
        monkeypatch.setattr(engine.time, "monotonic", lambda: clock[0])
        queries = some_queries(40)
        assert there.search(queries, 20).ids == memory.search(queries, 20).ids
        assert asked[:4] == [20, 5, 5, 5]  # ten seconds, then a quarter of that

    def test_is_halved_at_each_try_and_grows_again(self, memory, monkeypatch):
        monkeypatch.setattr(engine, "FIRST_WAIT", 0.0)
        monkeypatch.setattr(engine, "HITS_AT_ONCE", 800)
        slow, asked = Slow(memory.ids, memory.vectors[:, 0].numpy()), []
        find = slow.find
        monkeypatch.setattr(
            slow, "find", lambda queries, count: asked.append(len(queries)) or find(queries, count)
        )
        slow.search(some_queries(40), 20)
        assert asked[:4] == [40, 20, 10, 5]
        slow.most, asked[:] = 10**6, []
        slow.search(some_queries(200), 20)
        assert asked[-4:-1] == [40, 40, 40]  # 800 hits, and never more
        slow._at_once, asked[:] = 100, []
        slow.search(some_queries(100), 20)
        assert asked == [5, 10, 20, 40, 25]

    def test_of_one_query_is_asked_for_all_the_same(self, memory, monkeypatch):
        monkeypatch.setattr(engine, "HITS_AT_ONCE", 10)
        there, asked = ArrayEngine(memory.ids, memory.vectors[:, 0].numpy()), []
        find = there.find
        monkeypatch.setattr(
            there, "find", lambda queries, count: asked.append(len(queries)) or find(queries, count)
        )
        assert there.search(some_queries(3), 20).ids == memory.search(some_queries(3), 20).ids
        assert asked == [1, 1, 1]

    def test_is_less_after_a_call_that_took_more_than_a_quarter_of_the_timeout(
        self, memory, monkeypatch
    ):
        there, clock = ArrayEngine(memory.ids, memory.vectors[:, 0].numpy(), timeout=10.0), [0.0]
        there._at_once, asked = 400, []
        find = there.find

        def timed(queries, count):
            asked.append(len(queries))
            clock[0] += 0.2 * len(queries)
            return find(queries, count)

        monkeypatch.setattr(there, "find", timed)
        monkeypatch.setattr(engine.time, "monotonic", lambda: clock[0])
        there.search(some_queries(40), 20)
        assert asked == [20, 12, 8]  # four seconds, then 2.5 at most


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"dimension": 1, "retries": 0, "timeout": 0.1, "refresh_after": 0.0}, False),
        ({"dimension": 0}, True),
        ({"retries": -1}, True),
        ({"timeout": 0.0}, True),
        ({"timeout": float("nan")}, True),
        ({"refresh_after": -0.1}, True),
    ],
)
def test_the_least_of_each_setting(given, refused):
    if refused:
        with pytest.raises(BadInput, match="expected at least 1, 0, more than 0, and 0"):
            EngineGallery(**{"dimension": 2, **given})
    else:
        EngineGallery(**given).close()  # which has nothing to close


def test_one_candidate_is_a_gallery():
    alone = stored([[0.6, 0.8]])
    assert torch.allclose(alone.centroids(3), torch.tensor([[0.6, 0.8]]))
    assert len(alone) == 1 and alone.search(torch.tensor([[1.0, 0.0]]), 3).ids == [[0]]


def test_handles_that_were_not_found_are_refused(there):
    seen = there.fetch(some_queries(2), 5)
    last = int(seen.handles.max())
    assert seen.ids_at(torch.tensor([[last]])) == there.ids_at(torch.tensor([[last]]))
    for unknown in (last + 1, last + 100):
        with pytest.raises(BadInput, match="has not found"):
            seen.ids_at(torch.tensor([[unknown]]))


def test_the_best_of_pieces_are_the_best_of_all_however_short_a_piece_is():
    vectors, queries = some_queries(20).numpy(), some_queries(4, seed=5).numpy()
    rows = [range(at, min(at + 3, 20)) for at in range(0, 20, 3)]
    pieces = [(list(piece), 2 * vectors[list(piece)]) for piece in rows]
    for count in (1, 5, 20, 30):
        found = best_of_pieces(queries, pieces, count)
        expected = np.argsort(-queries @ vectors.T, axis=1)[:, :count]
        assert [hits.ids for hits in found] == expected.tolist()
        assert np.allclose(found[0].vectors, 2 * vectors[expected[0]])


class TestALostConnection:
    def test_is_one_error_and_changes_nothing(self, there):
        session = qs.Session(ToyEncoder(), there, qs.REST(lr=1e-2))
        batches = [list(batch) for batch in toy_queries(3, 12, CANDIDATES)]
        session.answer(batches[0])
        before = session.state
        there.online, asked = False, there.trips
        with pytest.raises(EngineLost, match=r"offline \(4 tries\).*when the engine is back"):
            session.answer(batches[1])
        assert session.state is before and there.trips == asked + 4
        there.online = True
        session.answer(batches[1])
        assert session.state.batches == 2

    def test_is_overcome_by_a_retry(self, there, monkeypatch):
        waits = []

        def back_after_two(seconds):
            waits.append(seconds)
            there.online = len(waits) == 2

        monkeypatch.setattr(engine.time, "sleep", back_after_two)
        there.online = False
        assert there.search(some_queries(1), 3).ids
        assert waits == [0.001, 0.002]


class TestCentroids:
    def test_are_kept_until_a_version_or_age_says_otherwise(self, there):
        kept = there.centroids(4)
        there.stored = -there.stored[:60]
        assert there.centroids(4) is kept
        there.refresh()
        moved = there.centroids(4)
        assert not torch.equal(moved, kept)
        there.refresh()
        assert there.centroids(4) is moved

    def test_are_made_anew_with_age(self, memory):
        there = ArrayEngine(memory.ids, memory.vectors[:, 0].numpy(), refresh_after=0.0)
        kept = there.centroids(4)
        there.stored = -there.stored
        assert torch.allclose(there.centroids(4), -kept, atol=1e-6)

    def test_are_those_in_memory(self, there, memory):
        assert torch.equal(there.centroids(10), memory.centroids(10))


def test_changes_between_batches_are_seen_by_the_next_search(there):
    query = some_queries(1)
    best = there.search(query, 1).ids[0][0]
    there.stored = np.concatenate((there.stored, query.numpy()))
    there.rows[CANDIDATES] = "new"
    assert there.search(query, 2).ids[0] == ["new", best]
    row = next(row for row, one in there.rows.items() if one == best)
    there.stored[row] = -there.stored[row]
    assert best not in there.search(query, 10).ids[0]


def test_methods_over_the_whole_gallery_name_the_one_that_works(there):
    batch = list(toy_queries(1, 12, CANDIDATES)[0])
    with pytest.raises(NeedsVectors, match=r"Refined\(method\)"):
        qs.Session(ToyEncoder(), there, qs.Tent()).answer(batch)
    assert len(qs.Session(ToyEncoder(), there, qs.Refined(qs.Tent())).answer(batch).top(3)) == 12


def test_a_session_is_saved_and_goes_on_over_an_engine(there, tmp_path):
    session = qs.Session(ToyEncoder(), there, qs.REST(lr=1e-2), depth=30)
    batches = [list(batch) for batch in toy_queries(2, 12, CANDIDATES)]
    session.answer(batches[0])
    session.save(tmp_path / "kept")
    again = qs.Session.load(tmp_path / "kept", ToyEncoder(), there)
    assert again.settings.depth == 30
    assert again.answer(batches[1]).top(5).ids == session.answer(batches[1]).top(5).ids
    assert torch.equal(again.state.adapted.values, session.state.adapted.values)


def test_gathered_exclusions_follow_to_another_engine(there, memory):
    session = qs.Session(ToyEncoder(), there, qs.REST(), gather=4)
    batch = list(toy_queries(1, 3, CANDIDATES)[0])
    session.answer(batch, exclude=[[0], [CANDIDATES - 1], None])
    session.gallery = ArrayEngine(memory.ids[:60], memory.vectors[:60, 0].numpy())
    session.answer(batch[:1])
    assert session.state.batches == 1


def test_a_matcher_finds_its_items_by_id():
    model, scenes = qs.load("tangram"), tangram.scenes("test", 24)
    captions = [tangram.captions(scene)[0] for scene in scenes]
    images = [scene.image() for scene in scenes]
    here = qs.Gallery.build(model["text"], captions, ids=[f"c{row}" for row in range(24)])
    there = ArrayEngine(here.ids, here.vectors[:, 0].numpy())
    plain = matcher(model, "image", rerank=6)
    with pytest.raises(BadInput, match=r"matcher.over\(items, ids=ids\)"):
        qs.Session(model["image"], there, qs.REST(), matcher=plain.over(captions))
    by_id = plain.over(captions[::-1], ids=here.ids[::-1])
    answers, learnt = [], []
    for gallery, judge in ((here, plain.over(captions)), (there, by_id), (here, by_id)):
        session = qs.Session(model["image"], gallery, qs.REST(lr=1e-3), matcher=judge, depth=8)
        answers.append([session.answer(images[i : i + 8]).top(5).ids for i in (0, 8, 16)])
        learnt.append(session.state.adapted.values)
    assert answers[0] == answers[1] == answers[2]
    assert torch.equal(learnt[0], learnt[1]) and torch.equal(learnt[0], learnt[2])


def test_a_verb_that_is_not_written_is_named():
    with pytest.raises(NotImplementedError, match="EngineGallery has no find"):
        EngineGallery(2).search(torch.tensor([[1.0, 0.0]]), 1)
    with pytest.raises(BadInput, match="timeout=0"):
        EngineGallery(2, timeout=0)


def test_an_address_opens_what_it_names(tmp_path, memory):
    memory.save(tmp_path / "toy.safetensors")
    assert qs.Gallery.open(tmp_path / "toy.safetensors").version == memory.version
    with pytest.raises(UnknownName, match='"redis"') as raised:
        qs.Gallery.open("redis://user:secret@host/collection")
    assert "secret" not in str(raised.value)


def test_answers_do_not_depend_on_the_type_of_ids(memory):
    names = [f"caption {one}" for one in memory.ids]
    named = rest_stream(ArrayEngine(names, memory.vectors[:, 0].numpy()))
    plain = rest_stream(memory)
    assert torch.equal(named[1], plain[1])
    assert named[0][0][0] == [f"caption {one}" for one in plain[0][0][0]]
