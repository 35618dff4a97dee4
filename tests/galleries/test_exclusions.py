"""Exclusions masked in scores: whole, in parts of rows or columns, and in columns of any order."""

import torch

from queryshift.galleries.exclusions import joined_queries, mask_excluded

PAIRS = torch.tensor([[0, 3], [1, 0], [1, 4], [3, 2]])


def scores():
    return torch.arange(20.0).view(4, 5)


def masked():
    """All scores, the pairs masked one by one."""
    expected = scores()
    for query, position in PAIRS.tolist():
        expected[query, position] = -torch.inf
    return expected


def test_every_pair_is_masked_and_nothing_else():
    assert torch.equal(mask_excluded(scores(), PAIRS), masked())
    assert torch.equal(mask_excluded(scores(), None), scores())
    assert torch.equal(mask_excluded(scores(), PAIRS[:0]), scores())


def test_parts_give_what_the_whole_gives():
    columns = [mask_excluded(scores()[:, i : i + 2], PAIRS, columns=i) for i in (0, 2, 4)]
    rows = [mask_excluded(scores()[i : i + 1], PAIRS, first_query=i) for i in range(len(scores()))]
    assert torch.equal(torch.cat(rows), masked())
    assert torch.equal(torch.cat(columns, dim=1), masked())


def test_columns_may_be_any_candidates_even_twice():
    listed = torch.tensor([4, 0, 4, 2])
    assert torch.equal(
        mask_excluded(scores()[:, listed], PAIRS, columns=listed), masked()[:, listed]
    )


def test_no_gradient_passes_an_excluded_score():
    queries = torch.ones(4, 1, requires_grad=True)
    several = (queries[:, :, None] * scores()[:, :, None]).amax(dim=2)  # keeps its result
    finite = mask_excluded(several, PAIRS)
    finite[torch.isfinite(finite)].sum().backward()
    assert torch.equal(queries.grad[:, 0], masked().clamp(min=0).sum(dim=1))


def test_joined_batches_keep_their_own_exclusions():
    parts = [
        (torch.eye(3)[:2], torch.tensor([[1, 4]])),
        (torch.eye(3)[2:], None),
        (-torch.eye(3), torch.tensor([[0, 2], [2, 0]])),
    ]
    vectors, pairs = joined_queries(parts)
    assert torch.equal(vectors, torch.cat((torch.eye(3), -torch.eye(3))))
    assert pairs.tolist() == [[1, 4], [3, 2], [5, 0]]
    assert joined_queries(parts[1:2])[1] is None


def test_batches_are_joined_whatever_the_default_device():
    queries = scores()
    with torch.device("meta"):
        _, pairs = joined_queries([(queries, PAIRS), (queries, PAIRS[:1])])
    assert pairs.tolist() == [*PAIRS.tolist(), [4, 3]]
