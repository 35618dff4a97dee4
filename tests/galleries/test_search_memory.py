"""Exact search: how many scores it holds at once, and how many candidates it converts."""

import pytest
import torch

from queryshift.errors import BadInput, NeedsVectors
from queryshift.galleries.memory import exact_search
from queryshift.galleries.memory.exact_search import few_above, in_memory, left_for_all


def widths(monkeypatch, queries, several, dimension, dtype, threads):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    asked = torch.empty(queries, dimension, device="cpu")
    return exact_search._widths(asked, torch.empty(2, several, dimension, dtype=dtype))


@pytest.mark.parametrize(
    ("queries", "several", "threads", "width"),
    [
        (64, 1, 1, 2**16 - 16),  # of 16 MB, rows 16 apart
        (64, 1, 2, 2**17 - 16),
        (64, 1, 8, 2**18 - 16),  # 64 MB at most
        (64, 2, 1, 2**15 - 16),
        (0, 1, 1, 2**22 - 16),
        (2**22, 1, 1, 1),
    ],
)
def test_scores_of_sixteen_megabytes_a_thread(monkeypatch, queries, several, threads, width):
    found = widths(monkeypatch, queries, several, 4, torch.float32, threads)
    assert found == (width, width)


@pytest.mark.parametrize(
    ("queries", "dimension", "threads", "piece"),
    [
        (64, 32, 1, 1024),
        (65, 32, 1, 1024),  # fewer are slow
        (16, 32, 1, 4096),
        (16, 32, 2, 8192),
        (16, 4096, 1, 1024),  # 16 MB of candidates
        (16, 8192, 1, 512),
        (16, 8192, 8, 2048),
        (2**22, 32, 1, 1),
    ],
)
def test_candidates_are_converted_a_piece_at_a_time(
    monkeypatch, queries, dimension, threads, piece
):
    assert widths(monkeypatch, queries, 1, dimension, torch.float16, threads)[1] == piece


def test_long_rows_are_searched_in_another_way_where_many_hits_are_wanted():
    long, short = torch.empty(1, 2**14), torch.empty(1, 2**14 - 1)
    assert few_above(long, 33) and not few_above(long, 32) and not few_above(short, 33)


def test_what_exclusions_leave_is_counted_by_the_query_with_the_most():
    pairs = torch.tensor([[0, 1], [2, 0], [2, 3], [2, 4]])
    assert left_for_all(5, pairs) == 2 and left_for_all(5, None) == left_for_all(5, pairs[:0]) == 5
    assert left_for_all(4, pairs) == 1
    with pytest.raises(BadInput, match="all 3 candidates are excluded"):
        left_for_all(3, pairs)


@pytest.mark.parametrize(
    ("count", "all_scored"), [(1, True), (2**18, True), (2**18 + 1, False), (2**20, False)]
)
def test_all_candidates_of_a_gallery_in_memory_are_scored_up_to_a_size(count, all_scored):
    class Stored:
        vectors = torch.empty(0)

        def __len__(self):
            return count

    class Engine(Stored):
        @property
        def vectors(self):
            raise NeedsVectors("an engine has none")

    assert in_memory(Stored()) == all_scored and not in_memory(Engine())


def test_a_gpu_takes_larger_pieces():
    asked = torch.empty(64, 4, device="meta")
    wide, narrow = (torch.empty(2, 1, 4, dtype=kind) for kind in (torch.float32, torch.float16))
    assert exact_search._widths(asked, wide) == (2**18 - 16, 2**18 - 16)
    assert exact_search._widths(asked, narrow) == (2**18 - 16, 2**17)
