"""The largest numbers of long rows, by way of the largest of each group."""

from __future__ import annotations

import torch
from torch import Tensor

GROUP = 16  # numbers of which only the largest is looked at first
LEAST = 2**14  # columns: shorter rows gain little


def grouped_topk(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The values and columns (B, count) that `scores.topk(count)` gives, sooner for long rows.

    The `count` largest of a row lie in the `count` groups whose largest are the largest: one pass
    finds these, and the rest is done on them alone. Among equal scores another one may come first.
    """
    groups = scores.shape[1] // GROUP
    if scores.device.type != "cpu" or scores.shape[1] < LEAST or 2 * count > groups:
        best, columns = scores.topk(count, dim=1)
        return best, columns
    grouped = scores[:, : GROUP * groups].view(len(scores), GROUP, groups)
    first = grouped.amax(dim=1).topk(count, dim=1).indices
    columns = (first[:, None] + groups * torch.arange(GROUP, device="cpu")[:, None]).flatten(1)
    rest = torch.arange(GROUP * groups, scores.shape[1], device="cpu").expand(len(scores), -1)
    columns = torch.cat((columns, rest), dim=1)
    best, order = scores.gather(1, columns).topk(count, dim=1)
    return best, columns.gather(1, order)
