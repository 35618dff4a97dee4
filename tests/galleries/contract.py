"""What every gallery does, in memory or in an engine: a test class with a factory to fill in."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from queryshift import REST, Frozen, Gallery, Searchable, Session, Vectors
from queryshift.errors import BadInput, GalleryMismatch
from queryshift.galleries import Id
from toy import ToyEncoder, toy_gallery, toy_queries

CANDIDATES, DIMENSION = 120, 8


@pytest.mark.filterwarnings("ignore::queryshift.RecallWarning")
class GalleryContract:
    """Subclass it as `class TestMine(GalleryContract)` and write `make`.

    `exact` is False for an index that may miss candidates: then no equality is asked for.
    """

    exact = True

    def make(self, ids: Sequence[Id], vectors: np.ndarray) -> Searchable:
        """A new gallery of these candidates: float32 unit vectors (N, D), in this order."""
        raise NotImplementedError

    @pytest.fixture
    def memory(self) -> Gallery:
        return toy_gallery(ToyEncoder(), CANDIDATES)

    @pytest.fixture
    def gallery(self, memory) -> Searchable:
        return self.make(memory.ids, memory.vectors[:, 0].numpy())

    def test_search_gives_ids_vectors_and_float_scores_best_first(self, gallery, memory):
        queries = some_queries(9)
        hits, expected = gallery.search(queries, 10), memory.search(queries, 10)
        assert hits.positions.shape == hits.scores.shape == (9, 10)
        assert hits.vectors.shape == (9, 10, 1, DIMENSION)
        assert bool((hits.scores.diff(dim=1) <= 0).all())
        cosines = (hits.vectors[:, :, 0] @ queries[:, :, None]).squeeze(2)
        assert torch.allclose(hits.scores, cosines, atol=1e-6)
        if self.exact:
            assert hits.ids == expected.ids
            assert torch.equal(hits.vectors, expected.vectors)
        rows = memory.positions([one for row in hits.ids for one in row])
        assert torch.allclose(hits.vectors.flatten(0, 1), memory.vectors[rows], atol=1e-6)

    def test_an_engine_searches_exactly_past_its_index(self, gallery, memory):
        if isinstance(gallery, Gallery):
            return
        queries = some_queries(4)
        found = gallery.find_exact(queries.numpy(), 10)
        assert [list(hits.ids) for hits in found] == memory.search(queries, 10).ids
        assert np.allclose(found[0].vectors, memory.search(queries, 10).vectors[0, :, 0], atol=1e-6)

    def test_a_position_stays_the_same_candidate(self, gallery):
        first, again = (gallery.search(some_queries(4), 5) for _ in range(2))
        assert torch.equal(first.positions, again.positions)
        assert gallery.ids_at(first.positions) == first.ids
        assert gallery.positions(first.ids[0]) == first.positions[0].tolist()

    def test_search_leaves_out_what_is_excluded(self, gallery):
        queries = some_queries(3)
        plain = gallery.search(queries, 6)
        pairs = [(0, int(plain.positions[0, 0])), (0, int(plain.positions[0, 2]))]
        left = gallery.search(queries, 4, torch.tensor(pairs)).ids
        assert left[0] == [plain.ids[0][place] for place in (1, 3, 4, 5)]
        assert left[1:] == [row[:4] for row in plain.ids[1:]]

    def test_more_hits_than_there_are_candidates_are_fewer(self, gallery):
        hits = gallery.search(some_queries(2), CANDIDATES + 50)
        assert 1 <= hits.positions.shape[1] <= CANDIDATES
        if self.exact:
            assert hits.positions.shape[1] == CANDIDATES

    def test_ids_are_known_or_refused(self, gallery, memory):
        quoted = 'it\'s "no" id; DROP TABLE candidates --'
        some = memory.ids[3:5]
        assert gallery.known([*some, 10**6]) == set(some)
        assert len(set(gallery.positions(some))) == 2
        for unknown in (10**6, quoted):
            with pytest.raises(BadInput, match="no candidate has the id"):
                gallery.positions([some[0], unknown])
        with pytest.raises(BadInput, match="expected a list of them"):
            gallery.positions("3")

    def test_size_and_version(self, gallery, memory):
        assert len(gallery) == CANDIDATES and gallery.dimension == DIMENSION
        assert isinstance(gallery.version, str) and gallery.version == gallery.version
        fewer = self.make(memory.ids[:50], memory.vectors[:50, 0].numpy())
        assert fewer.version != gallery.version

    def test_centroids_are_unit_vectors_of_a_fair_sample(self, gallery, memory):
        centroids = gallery.centroids(5)
        assert centroids.shape == (5, DIMENSION)
        assert torch.allclose(centroids.norm(dim=1), torch.ones(5), atol=1e-5)
        served = (memory.vectors[:, 0] @ centroids.T).amax(dim=1).mean()
        assert served > 0.9 * (memory.vectors[:, 0] @ memory.centroids(5).T).amax(dim=1).mean()
        assert gallery.centroids(10**4).shape[0] == CANDIDATES

    def test_queries_of_another_dimension_are_refused(self, gallery):
        with pytest.raises(GalleryMismatch, match=rf"expected \(queries, {DIMENSION}\)"):
            gallery.search(normalize(torch.ones(2, DIMENSION + 1), dim=1), 3)
        with pytest.raises(BadInput, match="at least 1"):
            gallery.search(some_queries(1), 0)

    def test_a_session_of_another_dimension_is_refused(self, gallery):
        with pytest.raises(GalleryMismatch, match="was it built by another model"):
            Session(Vectors(DIMENSION + 1), gallery, Frozen())

    def test_ids_that_are_gone_are_refused_or_passed_over(self, gallery, memory):
        session = Session(Vectors(DIMENSION), gallery, Frozen())
        query = some_queries(1)
        first = session.answer(query).top(1).ids[0][0]
        with pytest.raises(BadInput, match="no candidate has the id 10000000"):
            session.answer(query, exclude=[[first, 10**7]])
        answer = session.answer(query, exclude=[[first, 10**7]], missing="ignore")
        assert answer.top(1).ids[0][0] == memory.search(query, 2).ids[0][1]

    def test_text_ids_with_quotes_are_ids_as_others(self, memory):
        ids = [f'o\'clock "{number}" ü' for number in range(CANDIDATES)]
        gallery = self.make(ids, memory.vectors[:, 0].numpy())
        found = gallery.search(some_queries(2), 3)
        assert {one for row in found.ids for one in row} <= set(ids)
        assert gallery.known([ids[0], "o'clock"]) == {ids[0]}

    def test_a_rest_stream_is_that_of_the_gallery_in_memory(self, gallery, memory):
        there, here = (rest_stream(one) for one in (gallery, memory))
        if self.exact:
            assert there[0] == here[0] and torch.equal(there[1], here[1])
        assert here[1].abs().sum() > 0 and len(there[0]) == len(here[0])


def some_queries(count: int, seed: int = 3) -> Tensor:
    """Unit vectors near no candidate in particular."""
    drawn = torch.randn(count, DIMENSION, generator=torch.Generator().manual_seed(seed))
    return normalize(drawn, dim=1)


def rest_stream(gallery: Searchable, batches: int = 6) -> tuple[list[list[list[Id]]], Tensor]:
    """The answers and the last parameters of a REST stream."""
    session = Session(ToyEncoder(), gallery, REST(lr=1e-2), depth=50)
    answers = [
        session.answer(list(batch)).top(10).ids for batch in toy_queries(batches, 12, CANDIDATES)
    ]
    return answers, session.state.adapted.values
