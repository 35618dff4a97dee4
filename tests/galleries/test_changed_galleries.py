"""Galleries that candidates were added to and removed from are those built anew of the same."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from queryshift import REST, Gallery, Session
from queryshift.errors import BadInput
from queryshift.galleries.memory import exact_gallery, exact_search
from toy import ToyEncoder, toy_gallery, toy_queries

DIMENSION = 6


def vector_of(one: int, several: int = 1) -> Tensor:
    """The vectors (V, D) of a candidate, the same whenever it is added."""
    draw = torch.Generator().manual_seed(one)
    return normalize(torch.randn(several, DIMENSION, generator=draw), dim=-1)


def vectors_of(ids: list[int], several: int = 1) -> Tensor:
    return torch.stack([vector_of(one, several) for one in ids])


def changed(gallery: Gallery, ids: list[int], change: tuple[str, int], new: int, several: int):
    """A gallery and its ids after one change: `size` candidates added, or removed by a stride."""
    kind, size = change
    if kind == "add":
        more = list(range(new, new + size))
        return gallery.add_vectors(more, vectors_of(more, several)), [*ids, *more]
    if kind == "add again":  # ids that were removed before
        more = [one for one in range(new) if one not in ids][:size]
        if not more:
            return gallery, ids
        return gallery.add_vectors(more, vectors_of(more, several)), [*ids, *more]
    gone = ids[size % 3 :: max(2, 40 // size)][: len(ids) - 1]
    return (gallery.remove(gone) if gone else gallery), [one for one in ids if one not in gone]


def assert_same(gallery: Gallery, fresh: Gallery, several: int) -> None:
    """All that a session asks is answered as by a gallery built anew."""
    queries = normalize(torch.randn(5, DIMENSION, generator=torch.Generator().manual_seed(1)))
    some = fresh.ids[::3]
    exclude = torch.tensor([[0, fresh.positions(fresh.ids[-1:])[0]], [2, 0]])
    for left_out in (None, exclude) if len(fresh) > 1 else (None,):
        found, expected = (one.search(queries, 7, left_out) for one in (gallery, fresh))
        assert found.ids == expected.ids
        assert torch.equal(found.positions, expected.positions)
        assert torch.allclose(found.scores, expected.scores, atol=1e-6)
        assert torch.equal(found.vectors, expected.vectors)
    assert (len(gallery), gallery.version) == (len(fresh), fresh.version)
    assert gallery.positions(some) == fresh.positions(some)
    assert gallery.known([*some, -1]) == set(some)
    assert torch.equal(gallery.centroids(3), fresh.centroids(3))
    assert gallery.ids == fresh.ids
    assert torch.equal(gallery.vectors, fresh.vectors)
    assert gallery.search(queries, 7).ids == fresh.search(queries, 7).ids  # now of one segment
    assert repr(gallery) == repr(fresh)


CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "add again", "remove"]), st.integers(1, 30)), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES, several=st.sampled_from([1, 3]), share=st.sampled_from([1, 8]))
def test_any_changes_leave_the_gallery_that_is_built_anew(changes, several, share):
    ids = list(range(20))
    gallery = Gallery.from_vectors(ids, vectors_of(ids, several))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(exact_gallery, "DEAD_SHARE", share)  # 1: dead rows are never left behind
        patched.setattr(exact_search, "CHUNK_SCORES", 5 * several * (16 + exact_search.PADDING))
        for number, change in enumerate(changes):
            before = (gallery, list(gallery._rows.ids_at(torch.arange(len(gallery))[None])[0]))
            gallery, ids = changed(gallery, ids, change, 100 * (number + 1), several)
            assert before[0]._rows.compact_ids() == before[1]  # which stays as it is
        assert_same(gallery, Gallery.from_vectors(ids, vectors_of(ids, several)), several)


def test_a_stream_over_a_changed_gallery_is_that_over_a_fresh_one():
    encoder, whole = ToyEncoder(), toy_gallery(ToyEncoder(), 120)
    part = Gallery(whole.ids[:100], whole.vectors[:100])
    part = part.add_vectors(whole.ids[100:], whole.vectors[100:, 0])
    streams = []
    for gallery in (part.remove([3, 70, 110]), whole.remove([3, 70, 110])):
        session = Session(encoder, gallery, REST(lr=1e-2), hubs=None)
        answers = [session.answer(list(batch)).top(5).ids for batch in toy_queries(4, 12, 120)]
        streams.append((answers, session.state.adapted.values))
    assert streams[0][0] == streams[1][0]
    assert torch.allclose(streams[0][1], streams[1][1], atol=1e-6)


def test_the_version_sees_changes_at_the_end_of_a_long_gallery():
    ids = list(range(2000))
    gallery = Gallery.from_vectors(ids, torch.eye(4)[torch.arange(2000) % 4])
    other = gallery.remove([1998]).add_vectors([5000], torch.eye(4)[:1])
    again = gallery.remove([1998, 1999]).add_vectors([1999, 1998], torch.eye(4)[:2])
    assert len({gallery.version, other.version, again.version}) == 3
    assert other.remove([5000]).version == gallery.remove([1998]).version


@pytest.mark.parametrize("count", [1, 2, 5, 300, 511, 600, 601, 602, 603])
def test_the_version_sees_each_end_and_all_ids_of_a_small_gallery(count):
    def version(ids):
        return Gallery(ids, torch.eye(2)[:1].expand(count, 1, 2)).version

    ids = list(range(count))
    for row in range(count) if count < 9 else (0, count - 1, *((1, 100) if count < 512 else ())):
        assert version([*ids[:row], -1, *ids[row + 1 :]]) != version(ids)


def test_removing_more_than_an_eighth_copies_the_others_together():
    gallery = Gallery.from_vectors(range(100), vectors_of(list(range(100))))
    few, more = gallery.remove(range(12)), gallery.remove(range(13))
    assert not few._rows.plain and more._rows.plain
    assert few.ids == list(range(12, 100)) and more.ids == list(range(13, 100))


def test_a_single_removed_candidate_is_not_found():
    ids = list(range(40))
    gallery = Gallery.from_vectors(ids, vectors_of(ids)).remove([7])
    assert not gallery._rows.plain
    assert_same(gallery, Gallery.from_vectors(gallery.ids, vectors_of(gallery.ids)), 1)
    assert sorted(gallery.search(vector_of(7), 39).ids[0]) == gallery.ids


def test_many_small_additions_are_few_segments():
    gallery = Gallery.from_vectors(range(300), vectors_of(list(range(300))))
    for one in range(300, 400):
        gallery = gallery.add_vectors([one], vector_of(one))
        assert len(gallery._rows.segments) <= 8
    assert gallery.search(vectors_of([399])[:, 0], 1).ids == [[399]]


def test_an_id_that_was_removed_may_come_again_with_another_vector():
    gallery = Gallery.from_vectors("abc", torch.eye(3)).remove(["b"])
    with pytest.raises(BadInput, match="no candidate has the id 'b'"):
        gallery.positions(["b"])
    again = gallery.add_vectors(["b"], [[0.0, 0.6, 0.8]])
    assert again.ids == ["a", "c", "b"] and again.positions(["b"]) == [2]
    assert torch.allclose(again.vectors[2, 0], torch.tensor([0.0, 0.6, 0.8]))
    with pytest.raises(BadInput, match="'b' stands more than once"):
        again.add_vectors(["d", "b"], torch.eye(3)[:2])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_memory_map_of_long_vectors_can_be_changed(tmp_path, dtype):
    ids = list(range(50))
    plain = vectors_of(ids)[:, 0]
    np.save(
        tmp_path / "long.npy", (plain * torch.linspace(1, 9, 50)[:, None]).numpy().astype(dtype)
    )
    mapped = Gallery.from_vectors(ids, np.load(tmp_path / "long.npy", mmap_mode="r"))
    gallery = mapped.remove([4, 40]).add_vectors([60], vector_of(60))
    fresh = Gallery.from_vectors(gallery.ids, vectors_of(gallery.ids))
    close = 1e-6 if dtype == np.float32 else 2e-3
    found, expected = (one.search(plain[:9], 5) for one in (gallery, fresh))
    assert torch.allclose(found.scores, expected.scores, atol=close)
    assert torch.allclose(found.vectors, expected.vectors, atol=10 * close)
    assert torch.allclose(gallery.vectors.float(), fresh.vectors, atol=close)


def test_changes_take_the_time_of_what_changes():
    """A gallery of 2,000 and one of 500,000: their changes differ by less than the sizes do."""
    small, large = (_seconds_to_change(count) for count in (2_000, 500_000))
    assert large < 20 * small


def _seconds_to_change(count: int) -> float:
    gallery = Gallery(range(count), torch.eye(4)[torch.arange(count) % 4][:, None])
    gallery.known([0])  # ids are looked up by a table that is made once
    times = []
    for number in range(10):
        start = time.process_time()
        gallery = gallery.remove([number]).add_vectors([count + number], torch.eye(4)[:1])
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("columns", [exact_search.LEAST, exact_search.LEAST + 13])
@pytest.mark.parametrize("count", [1, 10, 400, 2000])
def test_the_best_by_groups_are_the_best(columns, count):
    scores = torch.rand(3, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores[0, -1], scores[1, 0] = 2, 2
    scores[2] = -torch.inf
    scores[2, :count] = torch.arange(count, dtype=torch.float64)
    best, found = exact_search.grouped_topk(scores, count)
    expected = scores.topk(count, dim=1)
    assert torch.equal(best, expected.values) and torch.equal(found, expected.indices)


@pytest.mark.parametrize("columns", [exact_search.LEAST, exact_search.LEAST + 13])
def test_numbers_above_a_floor_are_found_wherever_they_are(columns):
    draw = torch.Generator().manual_seed(0)
    scores = torch.rand(4, columns + 5, generator=draw, dtype=torch.float64)[:, :columns]
    scores[0, -1], scores[1] = 2, 0
    floor = torch.tensor([[0.99], [0.5], [0.999], [3.0]], dtype=torch.float64)
    best, found = exact_search.grouped_above(scores, floor)
    for row in range(4):
        there = best[row] > -torch.inf
        assert set(found[row][there].tolist()) == set(
            (scores[row] > floor[row]).nonzero()[:, 0].tolist()
        )
        assert torch.equal(best[row][there], scores[row][found[row][there]])


@pytest.mark.parametrize("count", [33, 100])
def test_many_hits_of_several_chunks_are_the_best(count, monkeypatch):
    monkeypatch.setattr(exact_search, "CHUNK_SCORES", 3 * 2**14)
    draw = torch.Generator().manual_seed(1)
    gallery = Gallery.from_vectors(range(60_000), torch.randn(60_000, 4, generator=draw))
    queries = torch.nn.functional.normalize(torch.randn(2, 4, generator=draw), dim=1)
    expected = (queries @ gallery.vectors[:, 0].T).topk(count, dim=1)
    assert torch.allclose(gallery.search(queries, count).scores, expected.values)
