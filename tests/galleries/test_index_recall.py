"""Recall of an index, measured over an engine whose index misses what the test says."""

import numpy as np
import pytest
import torch
from reference_engine import ArrayEngine

from queryshift.galleries import Found
from queryshift.galleries.index_recall import _wider, index_recall, moved_away, recall
from queryshift.galleries.searchable import SearchEffort
from toy import ToyEncoder, toy_gallery

MEMORY = toy_gallery(ToyEncoder(), 200)
ROWS = MEMORY.vectors[:, 0].numpy()
QUERIES = ROWS[:6]
SHIFTED = ROWS[100:106]


class Index(ArrayEngine):
    """An index that misses all for some queries unless it is searched broadly or deeply."""

    exact = False

    def __init__(self, misses: str, until: tuple[int, int], effort: SearchEffort | None) -> None:
        super().__init__(MEMORY.ids, ROWS)
        self.misses = {"asked": QUERIES, "shifted": SHIFTED}[misses]
        self.until, self.search_effort = until, effort
        self.tried: list[int] = []

    def find(self, queries, count):
        value = self.search_effort.value if self.search_effort else 0
        if value and value not in self.tried:
            self.tried.append(value)
        broad, deep = self.until
        found = super().find(queries, count)
        if value >= broad or count >= deep:
            return found
        return [
            Found(hits.ids[-1:], hits.vectors[-1:]) if (query == self.misses).all(1).any() else hits
            for query, hits in zip(queries, found, strict=True)
        ]

    def find_exact(self, queries, count):
        return super().find(queries, count)


def measured(index: Index, depth: int = 20):
    return index_recall(index, torch.from_numpy(QUERIES), torch.from_numpy(SHIFTED), depth)


@pytest.mark.parametrize("misses", ["asked", "shifted"])
def test_advice_needs_enough_of_queries_as_they_are_and_shifted(misses):
    index = Index(misses, (16, 10**6), SearchEffort("ef", 2, 1000))
    ordinary, shifted, advice = measured(index)
    assert (ordinary.at_10 < 0.5, shifted.at_10 < 0.5) == (misses == "asked", misses == "shifted")
    assert advice == 'add "ef=16" to the address: it finds 1.000'
    assert index.tried == [2, 4, 8, 16] and index.search_effort.value == 2  # put back


def test_no_advice_where_enough_is_found():
    assert measured(Index("asked", (2, 0), SearchEffort("ef", 2, 1000)))[2] == ""


def test_six_broader_searches_are_tried_then_three_times_the_depth():
    index = Index("shifted", (10**6, 60), SearchEffort("ef", 2, 1000))
    assert "make sessions with depth=60" in measured(index)[2]
    assert index.tried == [2, 4, 8, 16, 32, 64, 128]
    assert "no broader or deeper search" in measured(Index("asked", (10**6, 61), None))[2]


@pytest.mark.parametrize(
    ("value", "largest", "tried"),
    [(3, 10, [6, 10]), (10, 10, []), (12, 10, []), (5, 10, [10]), (1, 64, [2, 4, 8, 16, 32, 64])],
)
def test_no_search_is_broader_than_the_engine_allows(value, largest, tried):
    index = Index("asked", (0, 0), SearchEffort("ef", value, largest))
    assert [effort.value for effort in _wider(index)] == tried


def test_queries_move_a_tenth_away_from_the_mean_of_the_ten_nearest():
    query = np.float32([[0.6, 0.8], [1, 0]])
    near = [Found([0, 1], np.float32([[1, 0], [1, 0]])), Found([0], np.float32([[0, 1]]))]
    expected = np.float32([[0.5, 0.8], [1, -0.1]])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(moved_away(query, near), expected)
    far = [Found(range(30), np.repeat(np.float32([[1, 0], [0, 1]]), [10, 20], axis=0))]
    assert np.allclose(moved_away(query[:1], far), expected[:1])


def test_hits_count_by_their_cosine_and_their_nearest_vector():
    """Two vectors of any length per candidate."""
    query, exact = np.float32([[1, 0]]), np.float32([[1, 0.8, 0.6]])
    several = np.float32([[[0, 9], [7, 0]], [[0.4, 0.3], [0, -1]], [[0, 5], [-5, 0]]])
    index = Index("asked", (0, 0), None)
    index.find = lambda *_: [Found(["a", "b", "c"], several)]
    found = recall(index, query, exact, 3)
    assert found.at_10 == found.at_depth == pytest.approx(2 / 3)


def test_of_fewer_hits_than_ten_all_count():
    index = Index("asked", (0, 0), None)
    exact = -np.sort(-(QUERIES @ ROWS.T), axis=1)[:, :15]
    assert recall(index, QUERIES, exact, 5).at_10 == 1.0
