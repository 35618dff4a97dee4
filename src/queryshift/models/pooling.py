"""Token vectors to one vector per text, in the modes of sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from queryshift.errors import unknown


class Pooling(nn.Module):
    """One vector per text; several modes are put side by side."""

    def __init__(self, modes: Sequence[str]) -> None:
        super().__init__()
        for mode in modes:
            if mode not in MODES:
                raise unknown("pooling mode", mode, MODES)
        self.modes = tuple(modes)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Vectors (B, D) of token vectors (B, T, D), without those the mask (B, T) leaves out."""
        return torch.cat([MODES[mode](tokens, mask) for mode in self.modes], dim=-1)


def first(tokens: Tensor, mask: Tensor) -> Tensor:
    """The first token, which padding may come before."""
    return _at(tokens, mask.argmax(dim=1))


def last(tokens: Tensor, mask: Tensor) -> Tensor:
    """The last token, which padding may come behind."""
    return _at(tokens, mask.shape[1] - 1 - mask.flip(1).argmax(dim=1))


def maximum(tokens: Tensor, mask: Tensor) -> Tensor:
    """The largest value of each dimension."""
    return tokens.masked_fill(mask[..., None] == 0, float("-inf")).amax(dim=1)


def mean(tokens: Tensor, mask: Tensor) -> Tensor:
    """The mean of the tokens."""
    return _weighted_mean(tokens, mask)


def mean_by_root(tokens: Tensor, mask: Tensor) -> Tensor:
    """The sum of the tokens over the square root of how many there are."""
    return _sum(tokens, mask) / mask.sum(dim=1, keepdim=True).sqrt()


def mean_by_position(tokens: Tensor, mask: Tensor) -> Tensor:
    """The mean of the tokens, the first weighing 1, the second 2, and so on."""
    return _weighted_mean(tokens, mask.cumsum(dim=1) * mask)


MODES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": first,
    "max": maximum,
    "mean": mean,
    "mean_sqrt_len_tokens": mean_by_root,
    "weightedmean": mean_by_position,
    "lasttoken": last,
}
"""The modes by their names in checkpoints, in the order they are put side by side."""

_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


def modes_of(config: Mapping[str, object]) -> list[str]:
    """The modes that a Pooling module's config names: one, several, or a flag for each."""
    named = config.get("pooling_mode")
    if isinstance(named, str):
        return [named]
    if isinstance(named, Sequence):
        return [str(mode) for mode in named]
    return [mode for flag, mode in _FLAGS.items() if config.get(flag)] or ["mean"]


def _at(tokens: Tensor, positions: Tensor) -> Tensor:
    return tokens[torch.arange(len(tokens), device=tokens.device), positions]


def _sum(tokens: Tensor, weights: Tensor) -> Tensor:
    return (tokens * weights[..., None].to(tokens.dtype)).sum(dim=1)


def _weighted_mean(tokens: Tensor, weights: Tensor) -> Tensor:
    return _sum(tokens, weights) / weights.sum(dim=1, keepdim=True)
