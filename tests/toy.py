"""A small encoder with several LayerNorms, and a gallery and shifted queries for it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, normalize

from queryshift.encoders.encoder import Encoder
from queryshift.galleries import Gallery

FEATURES = 12


class ToyEncoder(Encoder):
    """Residual blocks, each behind a LayerNorm, and one LayerNorm before the last layer."""

    def __init__(
        self, width: int = 16, dimension: int = 8, blocks: int = 2, dtype: torch.dtype = torch.float
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.first = nn.Linear(FEATURES, width)
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(blocks))
            self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
            self.last = nn.LayerNorm(width)
            self.head = nn.Linear(width, dimension, bias=False)
        self.to(dtype)

    def prepare(self, items: Sequence[Any]) -> Tensor:
        return torch.stack([torch.as_tensor(one) for one in items]).to(self.head.weight.dtype)

    def forward(self, prepared: Tensor) -> Tensor:
        hidden = self.first(prepared.to(self.first.weight.dtype))
        for norm, layer in zip(self.norms, self.layers, strict=True):
            hidden = hidden + layer(gelu(norm(hidden)))
        return normalize(self.head(self.last(hidden)), dim=1)


def toy_items(count: int, seed: int = 0) -> Tensor:
    """Clean items (count, FEATURES)."""
    return torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(seed))


def toy_gallery(encoder: Encoder, count: int = 100, seed: int = 0) -> Gallery:
    """Candidates: the clean items' own vectors, a little displaced, so that there is a gap."""
    vectors = encoder.encode(list(toy_items(count, seed)))
    noise = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(seed + 1))
    return Gallery.from_vectors(range(count), vectors + 0.1 * noise.to(vectors) + 0.1)


def toy_queries(batches: int, size: int, candidates: int = 100, seed: int = 0) -> list[Tensor]:
    """Batches of items near the gallery's, all shifted the same way and a little noisy."""
    generator = torch.Generator().manual_seed(seed + 2)
    chosen = torch.randint(candidates, (batches, size), generator=generator)
    noise = torch.randn(batches, size, FEATURES, generator=generator)
    shift = torch.randn(FEATURES, generator=generator)
    return list(toy_items(candidates, seed)[chosen] + 0.3 * noise + 0.5 * shift)
