"""Hits: the first of each query, what is shown and compared of them."""

import pytest
import torch

from queryshift import Gallery, Hits
from queryshift.errors import BadInput


@pytest.fixture
def hits():
    gallery = Gallery.from_vectors("abc", torch.eye(3))
    return gallery.search(torch.tensor([[0.8, 0.6, 0.0], [0.0, 0.6, 0.8]]), 3)


def test_the_first_are_taken_and_all_where_more_are_asked_for(hits):
    assert hits.top(1).ids == [["a"], ["c"]] and hits.top(2).ids == [["a", "b"], ["c", "b"]]
    assert hits.top(2).scores.shape == (2, 2) and hits.top(2).vectors.shape == (2, 2, 1, 3)
    assert hits.top(3) is hits and hits.top(4) is hits
    assert len(hits) == 2 and hits.to("cpu").ids == hits.ids


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "2", None])
def test_at_least_one_is_asked_for(hits, count):
    with pytest.raises(BadInput, match="expected a whole number of at least 1"):
        hits.top(count)


def test_only_positions_and_scores_are_shown(hits):
    shown = repr(hits)
    assert "positions=" in shown and "scores=" in shown and "candidates=" not in shown


def test_where_ids_are_looked_up_takes_no_part_in_comparisons(hits):
    other = Gallery.from_vectors("xyz", torch.eye(3))
    assert Hits(hits.positions, hits.scores, other) == hits
