"""Galleries under any input: refused in words, or made; searches of what was made are right."""

import torch
from fuzzing import attempt, fuzzed, refused
from hostile_values import ANYTHING, DIMENSION, VECTORS, mostly
from hypothesis import strategies as st
from small_sessions import encoder, gallery

from queryshift import Gallery

ID = mostly(st.sampled_from(("a", "b", "j", 10, 11)), ANYTHING)
NEW_ID = mostly(st.sampled_from("klmnopqrst") | st.integers(20, 29), ANYTHING)
ROW = mostly(VECTORS, ANYTHING)
IDS = mostly(st.lists(ID, max_size=4), ANYTHING)
CANDIDATES = mostly(  # ids and vectors, as many of the one as of the other
    st.lists(st.tuples(NEW_ID, ROW), min_size=1, max_size=4).map(
        lambda pairs: [*zip(*pairs, strict=True)]
    ),
    st.tuples(IDS, mostly(st.lists(ROW, max_size=4), ANYTHING)),
)
SOUGHT = torch.eye(DIMENSION)


@fuzzed(share=2, candidates=CANDIDATES)
def test_vectors_of_any_kind(candidates):
    made = attempt(Gallery.from_vectors, *candidates)
    if refused(made):
        return
    assert torch.isfinite(made.vectors.double()).all()
    assert torch.allclose(made.vectors.double().norm(dim=2), torch.ones(1).double(), atol=1e-2)
    if made.dimension == DIMENSION:
        hits = made.search(SOUGHT, 3)
        assert hits.scores.isfinite().all()
        assert {one for row in hits.ids for one in row} <= set(made.ids)


@fuzzed(share=2, candidates=CANDIDATES, given=ANYTHING)
def test_items_of_any_kind(candidates, given):
    ids, items = candidates
    attempt(Gallery.build, encoder(), items, ids)
    attempt(Gallery.build, encoder(), items, ids, given)
    attempt(Gallery.build, given, items)


@fuzzed(share=2, candidates=CANDIDATES, gone=IDS)
def test_changes_of_any_kind(candidates, gone):
    ids, vectors = candidates
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
    share=2,
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
