"""The largest numbers of long rows, by way of the largest of each group."""

from __future__ import annotations

import torch
from torch import Tensor

GROUP = 16  # numbers of which only the largest is looked at first
LEAST = 2**14  # columns: shorter rows gain little
FEW = 32  # that topk finds without sorting


def grouped_topk(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The values and columns (B, count) that `scores.topk(count)` gives, sooner for long rows.

    The `count` largest of a row lie in the `count` groups whose largest are the largest: one pass
    finds these, and the rest is done on them alone. Among equal scores another one may come first.
    """
    groups = scores.shape[1] // GROUP
    if not _long(scores) or 2 * count > groups:
        best, columns = scores.topk(count, dim=1)
        return best, columns
    first = _largest(scores).topk(count, dim=1).indices
    columns = (first[:, None] + groups * torch.arange(GROUP, device="cpu")[:, None]).flatten(1)
    rest = torch.arange(GROUP * groups, scores.shape[1], device="cpu").expand(len(scores), -1)
    columns = torch.cat((columns, rest), dim=1)
    best, order = scores.gather(1, columns).topk(count, dim=1)
    return best, columns.gather(1, order)


def few_above(scores: Tensor, count: int) -> bool:
    """Whether numbers above a floor are found sooner than the `count` largest."""
    return count > FEW and _long(scores)


def grouped_above(scores: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
    """The values and columns (B, m) of the numbers above a row's floor (B, 1), in any order.

    Rows that have fewer are filled up with -inf.
    """
    groups = scores.shape[1] // GROUP
    row, group = (_largest(scores) > floor).nonzero(as_tuple=True)
    columns = group[:, None] + groups * torch.arange(GROUP, device="cpu")
    values = scores[row[:, None], columns]
    found, member = (values > floor[row]).nonzero(as_tuple=True)
    rows, columns, values = row[found], columns[found, member], values[found, member]
    rest = scores[:, GROUP * groups :]
    late, place = (rest > floor).nonzero(as_tuple=True)
    if len(late):
        rows, order = torch.cat((rows, late)).sort(stable=True)
        columns = torch.cat((columns, place + GROUP * groups))[order]
        values = torch.cat((values, rest[late, place]))[order]
    counts = rows.bincount(minlength=len(scores))
    ranks = torch.arange(len(rows), device="cpu") - (counts.cumsum(0) - counts)[rows]
    shape = (len(scores), int(counts.max()))
    best = values.new_full(shape, -torch.inf)
    best[rows, ranks] = values
    where = columns.new_zeros(shape)
    where[rows, ranks] = columns
    return best, where


def _long(scores: Tensor) -> bool:
    return scores.device.type == "cpu" and scores.shape[1] >= LEAST


def _largest(scores: Tensor) -> Tensor:
    """The largest (B, groups) of each group; those behind the last whole group are left out."""
    groups = scores.shape[1] // GROUP
    return scores[:, : GROUP * groups].view(len(scores), GROUP, groups).amax(dim=1)
