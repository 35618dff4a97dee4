"""Galleries under any input: refused in words, or made; searches of what was made are right."""

import torch
from fuzzing import attempt, fuzzed, refused
from hostile_values import ANYTHING, DIMENSION, VECTORS, mostly
from hypothesis import strategies as st
from small_sessions import encoder, gallery

from queryshift import Gallery

IDS = st.lists(mostly(st.sampled_from("abcdefgh") | st.integers(0, 9), ANYTHING), max_size=4)
ROWS = st.lists(mostly(VECTORS, ANYTHING), max_size=4)
SOUGHT = torch.eye(DIMENSION)


@fuzzed(ids=mostly(IDS, ANYTHING), vectors=mostly(ROWS, ANYTHING))
def test_vectors_of_any_kind(ids, vectors):
    made = attempt(Gallery.from_vectors, ids, vectors)
    if refused(made):
        return
    assert torch.isfinite(made.vectors.double()).all()
    assert torch.allclose(made.vectors.double().norm(dim=2), torch.ones(1).double(), atol=1e-2)
    if made.dimension == DIMENSION:
        hits = made.search(SOUGHT, 3)
        assert hits.scores.isfinite().all()
        assert {one for row in hits.ids for one in row} <= set(made.ids)


@fuzzed(ids=mostly(IDS, ANYTHING), items=mostly(ROWS, ANYTHING), given=ANYTHING)
def test_items_of_any_kind(ids, items, given):
    attempt(Gallery.build, encoder(), items, ids)
    attempt(Gallery.build, encoder(), items, ids, given)
    attempt(Gallery.build, given, items)


@fuzzed(ids=mostly(IDS, ANYTHING), vectors=mostly(ROWS, ANYTHING), gone=mostly(IDS, ANYTHING))
def test_changes_of_any_kind(ids, vectors, gone):
    before = gallery().ids, gallery().vectors.clone()
    for changed in (
        attempt(gallery().add_vectors, ids, vectors),
        attempt(gallery().add, encoder(), vectors, ids),
        attempt(gallery().remove, gone),
    ):
        if not refused(changed):
            assert set(changed.ids) ^ set(before[0]) or not len(list(gone))
    assert gallery().ids == before[0] and torch.equal(gallery().vectors, before[1])


@fuzzed(
    queries=mostly(st.just(SOUGHT), ANYTHING),
    count=mostly(st.integers(1, 15), ANYTHING),
    exclude=mostly(st.none(), ANYTHING),
    given=ANYTHING,
)
def test_searches_of_any_kind(queries, count, exclude, given):
    attempt(gallery().search, queries, count, exclude)
    attempt(gallery().positions, given)
    attempt(gallery().known, given)
    attempt(gallery().to, given)
    attempt(gallery().centroids, given)


@fuzzed(path=ANYTHING)
def test_paths_of_any_kind(path):
    attempt(Gallery.load, path)
    attempt(Gallery.open, path)
