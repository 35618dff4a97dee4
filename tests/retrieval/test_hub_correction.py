"""Hub correction: exact over a gallery in memory, remembered, bounded, and cheap."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import normalize
from torch.utils.flop_counter import FlopCounterMode

from miniature import Remote, SeveralVectors, Toy, same
from queryshift import (
    REST,
    TSA,
    Frozen,
    Gallery,
    Guard,
    GuardWarning,
    Hubs,
    ReferenceQueries,
    Session,
    TCRUntrained,
    Vectors,
    answer_many,
    load,
)
from queryshift.errors import BadFile, BadInput
from queryshift.galleries.memory import exact_search
from queryshift.lab import tangram
from queryshift.lab.corruptions import corrupt, find
from queryshift.models import matcher
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.hubness import hub_correction, query_bank
from queryshift.retrieval.hubness.query_bank import QueryBank, coincidences
from queryshift.retrieval.uncertainty import repeated
from queryshift.sessions.state import State
from tampering import rewritten

WIDTH = 12
EMPTY = QueryBank.empty(WIDTH, torch.device("cpu"))


def rows(count: int, seed: int, crowd: float = 0.0) -> torch.Tensor:
    """Unit vectors, drawn towards one direction."""
    vectors = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))
    vectors[:, 0] += crowd
    return normalize(vectors, dim=1)


def in_memory(candidates: int = 300, several: int = 1) -> Gallery:
    vectors = rows(candidates * several, 0).view(candidates, several, WIDTH)
    return Gallery(range(candidates), vectors)


def over(gallery, **settings) -> Session:
    return Session(Vectors(WIDTH), gallery, Frozen(), hubs=Hubs(**settings))


def batches(count: int, size: int = 40, crowd: float = 2.0) -> list[torch.Tensor]:
    return list(rows(count * size, 1, crowd).split(size))


def plain(asked: list[torch.Tensor], gallery: Gallery, size: int = 1024, homes=None):
    """The rule in float64, batch by batch, query by query and candidate by candidate.

    `homes` are the galleries that batches were asked before, where not this one: of these batches,
    the gallery knows first places before correction only, and how unsure they were there.
    """

    def similarities(queries, candidates):
        return [[float((c @ q).max()) for c in candidates.vectors.double()] for q in queries]

    stored, before, claims, chances = [], [], [], []
    for batch, home in zip(asked, homes or [gallery] * len(asked), strict=True):
        rows = similarities(batch.double(), gallery)
        unit = _spread(stored or rows)  # first places come before the spread is taken anew
        stored = stored + similarities(batch.half().double(), gallery)
        hub = [unit * math.log(sum(math.exp(row[c] / unit) for row in stored)) for c in _all(rows)]
        corrected = [max(_all(rows), key=lambda c: row[c] - hub[c]) for row in rows]
        firsts = [max(_all(rows), key=lambda c: row[c]) for row in rows]
        before = (before + firsts)[-size:]
        claims = (claims + (corrected if home is gallery else firsts))[-size:]
        chances = (chances + list(map(_chance, similarities(batch.double(), home))))[-size:]
        stored = stored[-size:]
    unit, strength = _spread(stored), _strength(chances, len(stored))
    strength *= _spread_kept(before, claims)
    for c in _all(rows):
        pairs = list(zip(stored, claims, strict=True))
        every = sum(math.exp(row[c] / unit) for row, _ in pairs)
        own = [row for row, claim in pairs if claim == c or max(row) == row[c]]
        others = max(every - sum(math.exp(row[c] / unit) for row in own), 1e-5 * every)
        for row in rows:
            row[c] -= strength * unit * math.log(others)
    return torch.tensor(rows)


def _strength(chances: list[float], stored: int) -> float:
    """Of the correction: how much in doubt the latest queries are, and how many are known."""
    latest = chances[-64:]
    doubt = min(1.0, max(0.0, (2 * sum(latest) / len(latest) - 0.7) / 0.3))
    return doubt * min(1.0, (stored - 1) / 63)


def _spread_kept(before: list[int], claims: list[int]) -> float:
    """1 where correction spreads top-1 results, 0 where it leaves half as many different ones."""
    same = [sum(one == other for one in found for other in found) for found in (before, claims)]
    return max(0.0, 2 * min(1.0, same[0] / same[1]) - 1) ** 2


def _chance(row: list[float]) -> float:
    """That the best scores of a query stand out as far by accident; few scores do not tell."""
    best = sorted(row, reverse=True)[: min(21, len(row) // 6)]
    if len(best) < 7:
        return 0.425
    gaps = [(rank + 1) * (best[rank] - best[rank + 1]) for rank in range(len(best) - 1)]
    widest = max(gaps[:5]) / (sum(gaps[5:]) / len(gaps[5:]))
    return 1 - (1 - math.exp(-widest)) ** 5


def _all(rows: list[list[float]]) -> range:
    return range(len(rows[0]))


def _spread(stored: list[list[float]]) -> float:
    every = [value for row in stored for value in row]
    mean = sum(every) / len(every)
    exact = math.sqrt(sum((value - mean) ** 2 for value in every) / len(every))
    return 2 ** (round(8 * math.log2(exact)) / 8)


class TestTheRule:
    @pytest.mark.parametrize("several", [1, 3])
    def test_is_the_plain_loop_s_over_the_whole_gallery(self, several):
        gallery, asked = in_memory(several=several), batches(4)
        session = over(gallery, bank=100)
        for batch in asked:
            answer = session.answer(batch)
        expected = plain(asked, gallery, size=100)
        assert torch.allclose(answer.scores(), expected, atol=2e-4)
        best = answer.scores().topk(10, dim=1)
        assert torch.equal(answer.top(10).positions, best.indices)
        assert torch.equal(answer.top(10).scores, best.values)

    def test_is_the_plain_loop_s_where_doubt_comes_and_goes(self):
        """Queries near their answers and crowded ones take turns: the strength is never 0 or 1."""
        gallery = in_memory(150)
        clear = normalize(gallery.vectors[:84, 0] + 0.1 * rows(84, 4), dim=1)
        crowded = rows(110, 1, crowd=2.0)[:38]
        parts = crowded.split((16, 6, 16)), clear.split((24, 30, 30))
        asked = [batch for pair in zip(*parts, strict=True) for batch in pair]
        session, chances, strengths = over(gallery, bank=90), [], []
        for number, batch in enumerate(asked, start=1):
            found = session.answer(batch).scores()
            assert torch.allclose(found, plain(asked[:number], gallery, size=90), atol=2e-4)
            scores = batch.double() @ gallery.vectors[:, 0].double().T
            chances += map(_chance, scores.tolist())
            strengths.append(_strength(chances, min(90, len(chances))))
        assert all(0 < one < 1 for one in strengths), strengths
        assert max(strengths) > 1.5 * min(strengths), strengths

    @pytest.mark.parametrize("size", [1, 8, 64])
    @pytest.mark.parametrize("count", [30, 60, 200])
    def test_a_gallery_of_candidates_that_are_all_alike_loses_nothing(self, count, size):
        """Nothing stands out there, but every query finds another candidate: no hubs."""
        seeded = torch.Generator().manual_seed(count)
        directions = torch.randn(4, 64, generator=seeded)
        along = 0.1 * torch.randn(count, 4, generator=seeded) @ directions
        alike = normalize(torch.randn(64, generator=seeded) + along, dim=1)
        asked = normalize(alike + 0.005 * torch.randn(count, 64, generator=seeded), dim=1)
        order = torch.randperm(count, generator=seeded)
        frozen = (asked @ alike.T).argmax(dim=1)[order] == order
        session, found = Session(Vectors(64), Gallery(range(count), alike[:, None])), []
        for batch in asked[order].split(size):
            found.append(session.answer(batch).top(1).positions[:, 0])
        right = torch.cat(found) == order
        assert frozen.float().mean() > 0.9
        assert right.float().mean() >= frozen.float().mean() - 0.01

    def test_on_an_engine_is_the_same_to_the_depth_of_one_search(self):
        gallery, asked = in_memory(), batches(3)
        near, whole = over(Remote(gallery), depth=300), over(gallery)
        for batch in asked:
            found, expected = near.answer(batch).top(5), whole.answer(batch).top(5)
        agree = (found.positions[:, 0] == expected.positions[:, 0]).float().mean()
        assert agree > 0.9  # their spreads are of 256 centres and of all 300 candidates
        assert torch.allclose(found.scores, expected.scores, atol=0.05)
        shallow = over(Remote(gallery), depth=7).answer(asked[0])
        assert torch.equal(
            shallow.top(7).positions.sort(dim=1).values,
            gallery.search(asked[0], 7).positions.sort(dim=1).values,
        )
        assert shallow.top(9).positions.shape == (40, 9)

    def test_on_an_engine_leaves_out_what_is_excluded(self):
        gallery, asked = in_memory(), batches(2)
        left_out = [[int(row)] for row in gallery.search(asked[1], 1).positions[:, 0]]
        sessions = over(Remote(gallery), depth=300), over(gallery)
        for session in sessions:
            session.answer(asked[0])
        found, expected = (one.answer(asked[1], exclude=left_out).top(299) for one in sessions)
        assert not any(set(ids) & set(row) for ids, row in zip(left_out, found.ids, strict=True))
        assert torch.allclose(found.scores[:, :9], expected.scores[:, :9], atol=0.05)
        assert bool(torch.isfinite(found.scores).all())

    def test_on_an_engine_searches_once_for_few_hits(self, monkeypatch):
        remote, counts = Remote(in_memory()), []
        search = remote.search
        monkeypatch.setattr(remote, "search", lambda *of: counts.append(of[1]) or search(*of))
        Hubs(depth=7).rank(asked := Forward(batches(1)[0], remote), asked, EMPTY).hits(5)
        assert counts == [21]  # as many as tell how uncertain the model is

    @pytest.mark.parametrize("far", [Remote, lambda gallery: gallery], ids=["engine", "memory"])
    def test_is_by_the_bank_and_gallery_that_are_asked(self, far):
        """What was computed for another bank, or before the gallery changed, does not count."""
        gallery, (batch, other) = far(in_memory()), batches(2)
        crowded = Gallery(range(200), rows(200, 5, crowd=3.0)[:, None])
        session, fresh = over(gallery), over(far(crowded))
        both, one = Forward(batch, gallery), Forward(batch, gallery)
        session.answer(batch, adapt=False).top(1)
        empty = session.state.hubs
        session.gallery = fresh.gallery
        expected = fresh.answer(other, adapt=False).top(9)
        found = session.answer(other, adapt=False).top(9)
        assert torch.allclose(found.scores, expected.scores, atol=1e-5)
        Hubs().rank(both, both, empty).hits(9)
        session.gallery = gallery
        session.answer(other)
        found, expected = (Hubs().rank(f, f, session.state.hubs).hits(9) for f in (both, one))
        assert torch.allclose(found.scores, expected.scores, atol=1e-5)

    @pytest.mark.parametrize("depth", [1, 20])
    def test_of_a_gallery_too_large_to_correct_whole(self, depth, monkeypatch):
        gallery, batch = in_memory(), batches(1)[0]
        monkeypatch.setattr(exact_search, "WHOLE", 100)
        answer = over(gallery, depth=depth).answer(batch)
        assert torch.equal(answer.scores().topk(depth).indices, answer.top(depth).positions)
        assert bool(((answer.scores() > -50).sum(dim=1) == depth).all())

    @pytest.mark.parametrize("size", [62, 63, 64])
    def test_counts_as_many_queries_before_a_batch_as_it_lacks(self, size):
        """The queries before are certain, so that one more or less shows in the uncertainty."""
        gallery = in_memory()
        clear = normalize(gallery.vectors[:64, 0] + 0.05 * rows(64, 4), dim=1)
        session, asked = over(gallery), torch.cat((clear[20:60], rows(24, 1)))[:size]
        session.answer(clear[:20])
        latest = torch.cat((clear[:20], asked))[-64:].double()
        chances = [_chance(row) for row in (latest @ gallery.vectors[:, 0].double().T).tolist()]
        expected = (2 * sum(chances) / 64 - 0.7) / 0.3
        assert 0 < expected < 1
        found = Hubs().uncertainty(Forward(asked, gallery), session.state.hubs)
        assert float(found) == pytest.approx(expected, abs=1e-3)

    def test_changes_nothing_for_one_query_alone(self):
        gallery, batch = in_memory(), batches(1)[0]
        alone = over(gallery).answer(batch[:1])
        assert torch.equal(alone.top(10).positions, gallery.search(batch[:1], 10).positions)

    def test_a_single_query_is_corrected_with_those_before(self):
        gallery, (batch, later) = in_memory(), batches(2)
        session = over(gallery)
        session.answer(batch)
        first = session.answer(later[:1], adapt=False).top(10).positions
        assert not torch.equal(first, gallery.search(later[:1], 10).positions)

    def test_more_candidates_take_the_first_places_of_a_crowd(self):
        gallery, asked = in_memory(), batches(6)
        session = over(gallery)
        found = torch.cat([session.answer(batch).top(1).positions for batch in asked])
        source = gallery.search(torch.cat(asked), 1).positions
        assert len(found.unique()) > 1.25 * len(source.unique())

    def test_excluded_candidates_stay_out(self):
        gallery, (batch, _) = in_memory(20), batches(2)
        left_out = [[0, 1]] + [None] * 39
        answer = over(gallery).answer(batch, exclude=left_out)
        assert answer.top(20).positions.shape == (40, 18)
        assert not {0, 1} & set(answer.top(20).ids[0])
        assert torch.isneginf(answer.scores()[0, :2]).all()

    def test_one_candidate_and_equal_candidates_are_no_error(self):
        alike = Gallery(range(5), rows(1, 3).expand(5, WIDTH)[:, None].clone())
        for gallery in (in_memory(1), alike):
            answer = over(gallery).answer(batches(1)[0])
            assert torch.isfinite(answer.scores()).all()


class TestTheBank:
    def test_is_bounded_and_holds_the_latest(self):
        session, asked = over(in_memory(), bank=50), batches(3)
        for batch in asked:
            session.answer(batch)
        bank = session.state.hubs
        assert torch.equal(bank.vectors, torch.cat(asked)[-50:].half())
        session.answer(rows(200, 9))
        assert len(session.state.hubs) == 50

    def test_knows_repeats_within_a_batch_and_from_before(self):
        keys = torch.tensor([5, 7, 5, 8, 5, 7])
        assert repeated(keys).tolist() == [False, False, True, False, True, True]
        bank = QueryBank.empty(WIDTH, torch.device("cpu"))
        assert bank.lacks(keys).tolist() == [True, True, False, True, False, False]
        vars(bank)["keys"] = torch.tensor([8, 9, 5])
        assert bank.lacks(keys).tolist() == [False, True, False, False, False, False]

    def test_looks_at_the_latest_chances_of_other_queries(self):
        bank = replace(
            QueryBank.empty(WIDTH, torch.device("cpu")), chances=torch.tensor([1.0, 2, 3, 4])
        )
        vars(bank)["keys"] = torch.tensor([6, 9, 8, 5])
        keys = torch.tensor([5, 7, 9])
        assert bank.latest_chances(1, keys).tolist() == [3]
        assert bank.latest_chances(2, keys).tolist() == [1, 3]
        assert bank.latest_chances(64, keys).tolist() == [1, 3]

    def test_counts_equal_pairs(self):
        rows = torch.tensor([[4, 4, 9, 4], [1, 2, 3, 2]])
        assert coincidences(rows).tolist() == [10, 6]
        assert coincidences(rows[:, :1]).tolist() == [1, 1]

    def test_goes_on_counting_pairs_query_by_query(self):
        session, asked = over(in_memory(20), bank=30), rows(80, 1, crowd=2.0)
        for number, query in enumerate([*asked.split(1), asked[:7], *asked[7:20].split(1)]):
            session.answer(query).top(1)
            bank = session.state.hubs
            anew = replace(bank)
            assert bank.pairs == anew.pairs and torch.equal(bank.spread_kept, anew.spread_kept)
            found = vars(bank)["sums"]
            own = query_bank.HubSums.of(anew, session.gallery, found.moments).own
            assert torch.allclose(found.own, own, rtol=0.2, atol=1e-4), number

    def test_counts_repeats_once(self):
        session, batch = over(in_memory()), batches(1)[0]
        session.answer(torch.cat((batch, batch)))
        once = session.state.hubs
        session.answer(batch.flip(0))
        assert len(once) == 40
        assert session.state.hubs is once

    def test_only_what_is_adapted_to_is_remembered(self):
        session, (batch, other) = over(in_memory()), batches(2)
        session.answer(batch)
        before = session.state.hubs
        corrected = session.answer(other, adapt=False)
        (many,) = answer_many([session], [other])
        assert session.state.hubs is before
        assert torch.equal(corrected.scores(), many.scores())
        assert torch.allclose(corrected.scores(), session.answer(other).scores(), atol=1e-5)

    def test_is_undone_forked_and_reset(self):
        session, (batch, other) = over(in_memory()), batches(2)
        session.answer(batch)
        twin = session.fork()
        session.answer(other)
        assert [len(one.state.hubs) for one in (session, twin)] == [80, 40]
        assert torch.equal(twin.answer(other).scores(), session.answer(other).scores())
        session.undo()
        assert len(session.state.hubs) == 80
        twin.undo()
        assert len(twin.state.hubs) == 40
        session.reset()
        assert len(session.state.hubs) == 0

    def test_goes_on_from_a_file(self, tmp_path):
        session, (batch, other) = over(in_memory(), bank=64), batches(2)
        session.answer(batch)
        session.save(tmp_path / "s")
        loaded = Session.load(tmp_path / "s", Vectors(WIDTH), session.gallery)
        assert loaded.settings.hubs == Hubs(bank=64)
        assert same(loaded.state, session.state)
        expected = session.answer(other).scores()
        assert torch.allclose(loaded.answer(other).scores(), expected, atol=2e-4)
        without = Session.load(tmp_path / "s", Vectors(WIDTH), session.gallery, hubs=None)
        assert without.state.hubs is None
        plain_scores = other @ session.gallery.vectors[:, 0].T
        assert torch.allclose(without.answer(other).scores(), plain_scores, atol=1e-6)

    def test_starts_empty_where_the_file_has_none(self, tmp_path):
        session = Session(Vectors(WIDTH), in_memory(), Frozen())
        session.answer(batches(1)[0])
        session.save(tmp_path / "s")
        loaded = Session.load(tmp_path / "s", Vectors(WIDTH), session.gallery, hubs=Hubs())
        assert len(loaded.state.hubs) == 0

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda t: t.update({"stages.hubs.vectors": torch.ones(40, 3).half()}), "12 dimens"),
            (lambda t: t["stages.hubs.vectors"].mul_(2), "unit length"),
            (lambda t: t["stages.hubs.vectors"].fill_(math.nan), "not finite"),
            (lambda t: t["stages.hubs.firsts"].fill_(300), "top-1 results"),
            (lambda t: t.update({"stages.hubs.firsts": torch.zeros(4)}), "top-1 result for each"),
            (lambda t: t["stages.hubs.unsure"].fill_(2), "chances of the bank"),
        ],
    )
    def test_that_cannot_be_is_refused_in_a_sentence(self, change, said, tmp_path):
        session = over(in_memory())
        session.answer(batches(1)[0])
        session.save(tmp_path / "s")
        rewritten(tmp_path / "s", "session", lambda about, tensors: change(tensors))
        with pytest.raises(BadFile, match=said):
            Session.load(tmp_path / "s", Vectors(WIDTH), session.gallery)

    def test_that_another_encoder_filled_is_refused(self, tmp_path):
        session = over(in_memory())
        session.answer(batches(1)[0])
        session.save(tmp_path / "s")
        with pytest.raises(BadFile, match="another model"):
            Session.load(tmp_path / "s", Vectors(WIDTH, model="other"), session.gallery)

    def test_outlives_its_gallery(self, tmp_path):
        session, (batch, other) = over(in_memory(300)), batches(2)
        session.answer(batch)
        session.save(tmp_path / "s")
        fewer = in_memory(300).remove(list(range(150, 300)))
        session.gallery = fewer
        loaded = Session.load(tmp_path / "s", Vectors(WIDTH), fewer)
        expected = plain([batch, other], fewer, homes=[in_memory(300), fewer])
        for one in (session, loaded):
            assert torch.allclose(one.answer(other).scores(), expected, atol=2e-4)

    def test_goes_on_where_candidates_come_leave_and_are_replaced(self):
        """Running sums are made anew for each gallery, and go on from there."""
        asked, gallery = batches(5), in_memory(150)
        session = over(gallery, bank=90)
        session.answer(asked[0])
        session.gallery = more = gallery.add_vectors(range(150, 190), rows(40, 8, crowd=2.0))
        homes = [gallery, more, more]
        for batch in asked[1:3]:
            answer = session.answer(batch)
        assert torch.allclose(answer.scores(), plain(asked[:3], more, 90, homes[:3]), atol=3e-4)
        session.gallery = fewer = more.remove(list(range(30, 60)))  # the others move up
        homes.append(fewer)
        answer = session.answer(asked[3])
        assert torch.allclose(answer.scores(), plain(asked[:4], fewer, 90, homes), atol=3e-4)
        session.gallery = replaced = Gallery(fewer.ids, fewer.vectors.flip(0))
        assert replaced.version == fewer.version
        homes.append(replaced)
        answer = session.answer(asked[4])
        assert torch.allclose(answer.scores(), plain(asked, replaced, 90, homes), atol=3e-4)

    def test_a_gallery_too_small_to_tell_is_in_half_a_doubt(self):
        gallery, asked = in_memory(41), batches(2)
        session = over(gallery)
        for batch in asked:
            answer = session.answer(batch)
        expected = plain(asked, gallery)
        assert torch.allclose(answer.scores(), expected, atol=2e-4)
        assert not torch.allclose(expected, asked[1] @ gallery.vectors[:, 0].T, atol=0.01)

    @pytest.mark.parametrize("size", [1, 5, 16, 63, 100])
    def test_a_young_stream_is_corrected_by_as_much_as_it_is_known(self, size):
        gallery, asked = in_memory(), [rows(size, 1, crowd=2.0)]
        answer = over(gallery).answer(asked[0])
        assert torch.allclose(answer.scores(), plain(asked, gallery), atol=2e-4)


class TestWithinASession:
    @pytest.mark.parametrize("adapt", [True, False])
    def test_one_query_s_exclusions_are_nobody_else_s(self, adapt):
        gallery, asked = in_memory(), rows(40, 1, crowd=2.0)
        free, bound = over(gallery), over(gallery)
        found = free.answer(asked, adapt=adapt).top(5).positions
        own = [[int(found[0, 0])], *[None] * 39]
        left = bound.answer(asked, adapt=adapt, exclude=own).top(5).positions
        assert int(found[0, 0]) not in left[0].tolist()
        assert (left[1:, 0] == found[1:, 0]).float().mean() > 0.9
        assert torch.isfinite(bound.answer(asked[1:], adapt=adapt).top(5).scores).all()

    def test_shadow_compares_with_uncorrected_answers(self):
        gallery, asked = in_memory(), batches(2)
        session = Session(Vectors(WIDTH), gallery, Frozen(), hubs=Hubs(), mode="shadow")
        for batch in asked:
            answer = session.answer(batch)
        source, corrected = answer.top(5), answer.adapted.top(5)
        assert torch.equal(source.positions, gallery.search(asked[1], 5).positions)
        differ = (source.positions[:, 0] != corrected.positions[:, 0]).float().mean()
        assert session.stats().disagreement == pytest.approx(float(differ))
        assert differ > 0

    def test_the_source_s_answer_is_uncorrected(self, encoder, gallery, batches):
        session = Session(encoder, gallery, REST(), hubs=Hubs())
        answer = session.answer(batches[0])
        frozen = Session(encoder, gallery, Frozen()).answer(batches[0])
        assert torch.equal(answer.source.scores(), frozen.scores())

    def test_learning_is_the_same_with_it(self, encoder, gallery, batches):
        plain_one = Session(encoder, gallery, REST())
        corrected = Session(encoder, gallery, REST(), hubs=Hubs())
        for batch in batches:
            left, right = plain_one.answer(batch), corrected.answer(batch)
        assert same(plain_one.params, corrected.params)
        assert torch.equal(left.vectors, right.vectors)
        assert not torch.equal(left.scores(), right.scores())

    @pytest.mark.parametrize("method", [TCRUntrained(), TSA()])
    def test_views_of_other_vectors_are_corrected(self, method, encoder, gallery, batches):
        session = Session(encoder, gallery, method, hubs=Hubs(), guard=Guard())
        for batch in batches:
            answer = session.answer(batch)
        assert torch.isfinite(answer.scores()).all()
        assert len(session.state.hubs) == (0 if isinstance(method, TSA) else 60)

    def test_a_guard_s_restart_clears_the_bank(self, encoder, gallery, batches, monkeypatch):
        session = Session(encoder, gallery, REST(), hubs=Hubs(), guard=Guard())
        session.answer(batches[0])
        assert len(session.state.hubs) == 12
        monkeypatch.setattr(State, "finite", False)
        monkeypatch.setattr("queryshift.sessions.step._sound", lambda *_: False)
        with pytest.warns(GuardWarning):
            session.answer(batches[1])
        assert session.state.resets == 1
        assert len(session.state.hubs) == 12  # this batch, answered by the source

    def test_ordinary_queries_are_answered_as_without_it(self, encoder, gallery, clean):
        calm = list(torch.stack(clean) + 0.05 * torch.eye(10).repeat(6, 1))
        guard = Guard(reference=ReferenceQueries.of(encoder, gallery, calm))
        session = Session(encoder, gallery, REST(), hubs=Hubs(), guard=guard)
        answer = session.answer(calm[:20])
        assert session.state.reference_streak == 1
        assert torch.equal(answer.scores(), answer.source.scores())
        assert len(session.state.hubs) == 0

    @pytest.mark.parametrize("worker", [False, True])
    def test_a_gathered_group_is_remembered(self, worker, encoder, gallery, batches):
        session = Session(encoder, gallery, REST(), hubs=Hubs(), gather=12, worker=worker)
        for query in batches[0]:
            assert len(session.state.hubs) == 0
            session.answer([query])
        session.wait()
        assert len(session.state.hubs) == 12
        assert torch.isfinite(session.answer(batches[1][:1]).scores()).all()

    def test_several_vectors_and_the_gallery_of_an_encoder(self, clean, batches):
        gallery = Gallery.build(SeveralVectors(), clean)
        session = Session(Toy(), gallery, REST(), hubs=Hubs())
        for batch in batches:
            answer = session.answer(batch)
        assert torch.equal(answer.scores().argmax(dim=1), answer.top(1).positions[:, 0])

    def test_an_encoder_of_float64(self, clean, batches):
        toy = Toy(dtype=torch.float64)
        session = Session(toy, Gallery.build(toy, clean), Frozen(), hubs=Hubs())
        assert session.answer(batches[0]).scores().dtype == torch.float64

    def test_says_what_it_is(self, capsys):
        over(in_memory(), bank=9).describe()
        assert "hubs.bank" in capsys.readouterr().out

    def test_one_query_and_one_hit_are_enough(self, encoder, gallery, batches):
        session = Session(encoder, gallery, Frozen(), hubs=Hubs(bank=1, depth=1))
        session.answer(batches[0])
        assert len(session.state.hubs) == 1

    @pytest.mark.parametrize("given", [{"bank": 0}, {"depth": -1}, {"bank": 1.5}])
    def test_what_cannot_be_is_refused(self, given):
        with pytest.raises(BadInput, match=f"{next(iter(given))} is"):
            Hubs(**given)
        with pytest.raises(BadInput, match=r"hubs=Hubs\(\)"):
            Session(Vectors(WIDTH), in_memory(), Frozen(), hubs=True)


class TestItsCost:
    def flops(self, work) -> int:
        with FlopCounterMode(display=False) as counter:
            work()
        return counter.get_total_flops()

    @pytest.mark.parametrize(("adapt", "most"), [(True, 2.3), (False, 1.1)])
    def test_a_single_query_costs_one_product_and_that_of_the_row_that_leaves(self, adapt, most):
        gallery = in_memory(2000)
        session = over(gallery, bank=256)
        for batch in rows(640, 1).split(64):
            session.answer(batch)
        later = rows(128, 2).split(1)
        cost = self.flops(lambda: [session.answer(query, adapt).top(10) for query in later])
        assert cost <= most * len(later) * 2 * len(gallery) * WIDTH  # the bank would be 256

    def test_rows_that_leave_are_multiplied_with_the_gallery_many_at_a_time(self, monkeypatch):
        session, products = over(in_memory(), bank=100), []
        for batch in rows(200, 1).split(50):
            session.answer(batch)
        counted = query_bank.all_scores
        monkeypatch.setattr(
            query_bank, "all_scores", lambda *of: products.append(len(of[0])) or counted(*of)
        )
        for query in rows(60, 2).split(1):
            session.answer(query)
        assert products == [query_bank.MOST_AHEAD]
        found = vars(session.state.hubs)["sums"]
        anew = query_bank.HubSums.of(session.state.hubs, session.gallery, found.moments)
        assert torch.allclose(found.others, anew.others, atol=1e-3)

    def test_nothing_is_kept_of_rows_that_have_left(self):
        session = over(in_memory(), bank=64)
        for batch in rows(256, 1).split(64):
            session.answer(batch)
        assert vars(session.state.hubs)["sums"].leaving is None

    def test_sums_that_lost_most_are_computed_again_in_pieces_that_fit(self, monkeypatch):
        session, pieces = over(in_memory(), bank=64), []
        session.answer(rows(64, 1))
        bank = session.state.hubs
        sums = query_bank.HubSums.of(bank, session.gallery)
        counted = query_bank.similarity
        monkeypatch.setattr(
            query_bank, "similarity", lambda *of: pieces.append(len(of[1])) or counted(*of)
        )
        monkeypatch.setattr(query_bank, "AT_ONCE", 70 * len(bank))
        total, own = sums.total * 0.4, sums.own * 0
        total[5], own[5] = sums.total[5] * 0.6, -1.0  # of this candidate most is left
        sums._sum_again(total, own, bank)
        assert pieces == [70, 70, 70, 70, 19]
        assert float(total[5] / sums.total[5]) == pytest.approx(0.6) and float(own[5]) == -1
        total[5], own[5] = sums.total[5], sums.own[5]
        assert torch.allclose(total, sums.total) and torch.allclose(own, sums.own)

    def test_scores_are_corrected_a_few_queries_at_a_time(self, monkeypatch):
        def answered():
            session = over(in_memory())
            session.answer(rows(64, 1))
            answer = session.answer(rows(64, 2), exclude=[[row, 7] for row in range(64)])
            return answer.top(20).positions, answer.scores()

        whole, pieces, topk = answered(), [], hub_correction.grouped_topk
        monkeypatch.setattr(hub_correction, "CACHED", 10 * 300)
        monkeypatch.setattr(
            hub_correction,
            "grouped_topk",
            lambda scores, count: pieces.append(len(scores)) or topk(scores, count),
        )
        positions, scores = answered()
        assert pieces == [10, 10, 10, 10, 10, 10, 4]
        assert torch.equal(positions, whole[0]) and torch.equal(scores, whole[1])
        assert scores[:, 7].tolist() == [-math.inf] * 64

    def test_the_gallery_is_not_searched_beside_the_product(self, monkeypatch):
        session, query = over(in_memory()), rows(1, 3)
        monkeypatch.setattr(Gallery, "search", lambda *_: pytest.fail("searched"))
        assert session.answer(query).top(10).positions.shape == (1, 10)
        left_out = session.answer(query, exclude=[[0, 1, 2]]).top(300)
        assert left_out.positions.shape == (1, 297)
        assert not {0, 1, 2} & set(left_out.positions[0].tolist())

    def test_nothing_is_computed_for_queries_that_the_model_is_certain_of(self, monkeypatch):
        gallery = in_memory()
        session, asked = over(gallery), gallery.vectors[:70, 0]
        session.answer(asked[:64])
        uncertain = session.answer(rows(64, 3), adapt=False)
        monkeypatch.setattr(Hubs, "joined", lambda *_: pytest.fail("corrected"))
        answer = session.answer(asked[64:], adapt=False, exclude=[[7]] * 6)
        assert answer.top(1).ids == [[row] for row in range(64, 70)]
        assert answer.scores()[:, 7].tolist() == [-math.inf] * 6
        cosines = (asked[64:] @ gallery.vectors[:, 0].T)[:, 8:]
        assert torch.allclose(answer.scores()[:, 8:], cosines, atol=1e-6)
        with pytest.raises(pytest.fail.Exception):
            uncertain.top(1)

    def test_what_it_keeps_is_two_numbers_a_candidate(self):
        session = over(in_memory(2000), bank=256)
        session.answer(rows(64, 1))
        kept = vars(session.state.hubs)["sums"]
        assert [kept.total.shape, kept.own.shape] == [(2000,), (2000,)]


def test_running_sums_are_those_of_the_whole_bank():
    session = over(in_memory(), bank=100)
    for batch in batches(30, size=20):
        answer = session.answer(batch)
    bank = session.state.hubs
    anew = over(in_memory(), bank=100)
    anew.restore(replace(session.state, hubs=replace(bank)))
    found = anew.answer(batch).scores()
    assert torch.allclose(found, answer.scores(), atol=1e-3)  # half precision: 5e-4 of a score


def test_a_state_that_was_learnt_over_another_gallery_is_not_restored():
    session = over(in_memory())
    session.answer(rows(64, 1))
    learnt = session.state
    session.gallery = session.gallery.remove(session.gallery.ids[20:])
    with pytest.raises(BadInput, match=r"another gallery .* among 20 candidates"):
        session.restore(learnt)
    assert session.answer(rows(3, 2)).top(30).positions.shape == (3, 20)


def test_the_spread_of_many_similarities_is_exact_where_all_are_large():
    """Their squares add up to a sum so large that float32 rounds what each of them adds."""
    chance = torch.Generator().manual_seed(0)
    candidates = normalize(torch.randn(20_000, 32, generator=chance) + 3, dim=1)
    session = Session(Vectors(32), Gallery(range(20_000), candidates[:, None]))
    for _ in range(2):
        session.answer(torch.randn(256, 32, generator=chance) + 3)
    bank = session.state.hubs
    similarities = bank.vectors.double() @ candidates.double().T
    kept = vars(bank)["sums"].moments
    assert kept.mean == pytest.approx(float(similarities.mean()), abs=1e-5)
    assert kept.spread == pytest.approx(float(similarities.std()), rel=0.05)  # it is rounded


def test_clear_queries_leave_no_trace_when_they_leave_the_bank():
    """Their weight is a million times the others': rounding of it would be all that is left."""
    chance = torch.Generator().manual_seed(0)
    candidates = normalize(torch.randn(500, 256, generator=chance), dim=1)
    gallery = Gallery.from_vectors(range(500), candidates)
    kept = Session(Vectors(256), gallery, Frozen(), hubs=Hubs(bank=64))
    for some in torch.randperm(500, generator=chance).split(50):
        kept.answer(normalize(candidates[some] + 0.02 * torch.randn(256, generator=chance), dim=1))
    sums = vars(kept.state.hubs)["sums"]
    anew = type(sums).of(kept.state.hubs, gallery)
    assert torch.allclose(sums.others, anew.others, atol=1e-3)
    assert torch.allclose(sums.of_all, anew.of_all, atol=1e-3)


@pytest.fixture(scope="module")
def world():
    scenes = tangram.scenes("dev", 256)
    noise = find("image", "gaussian_noise")
    asked = [corrupt(s.image(), noise, 3, seed=0, item_id=i) for i, s in enumerate(scenes)]
    captions = [caption for scene in scenes for caption in tangram.captions(scene)]
    model = load("tangram")
    return model, asked, captions, Gallery.build(model["text"], captions, batch_size=256)


class TestOnTangram:
    """On the development world: whole encoders, a matcher, a real shift."""

    def recall(self, world, hubs) -> float:
        model, asked, captions, gallery = world
        session, each = Session(model["image"], gallery, Frozen(), hubs=hubs), len(captions) // 256
        found = [session.answer(asked[i : i + 64]).top(1).positions for i in range(0, 256, 64)]
        right = torch.cat(found)[:, 0] // each == torch.arange(256)
        return 100 * float(right.float().mean())

    def test_noisy_pictures_are_answered_better(self, world):
        assert self.recall(world, Hubs()) > self.recall(world, None) + 10

    def test_a_matcher_ranks_what_hubs_leave_first(self, world):
        model, asked, captions, gallery = world
        judge = matcher(model, "image").over(captions[:300])
        few = Gallery(range(300), gallery.vectors[:300])
        sessions = [
            Session(model["image"], few, Frozen(), hubs=Hubs(), matcher=one)
            for one in (judge, None)
        ]
        both, hubs = (session.answer(asked[:8]) for session in sessions)
        depth = judge.matcher.rerank
        first = both.top(depth).positions.sort(dim=1).values
        assert torch.equal(first, hubs.top(depth).positions.sort(dim=1).values)
        assert not torch.equal(both.top(depth).positions, hubs.top(depth).positions)
        assert torch.equal(both.scores().topk(5).indices, both.top(5).positions)
