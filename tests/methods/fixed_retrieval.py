"""One retrieval with fixed vectors, in float64, for tests of single losses."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from queryshift.galleries import Gallery
from queryshift.methods.losses import SourceLike
from queryshift.retrieval.forward import Forward

SIZE, CANDIDATES, DIMENSION = 10, 15, 6


def unit(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(*shape, dtype=torch.float64, generator=generator), dim=-1)


GALLERY = Gallery.from_vectors(range(CANDIDATES), unit(CANDIDATES, DIMENSION, seed=0))


def queries(seed: int = 1, noise: float = 0.8) -> Tensor:
    """Some near a candidate, some between two."""
    near = GALLERY.vectors[:SIZE, 0] + noise * unit(SIZE, DIMENSION, seed=seed)
    near[-3:] += GALLERY.vectors[-3:, 0]
    return normalize(near, dim=1)


def retrieval(vectors: Tensor | None = None, exclude: Tensor | None = None) -> Forward:
    vectors = queries() if vectors is None else vectors
    return Forward(vectors.clone().requires_grad_(), GALLERY, exclude)


def shares(seen: Forward, tau: float) -> np.ndarray:
    """Softmax (B, N) over the whole gallery."""
    logits = seen.vectors.detach().numpy() @ seen.gallery.vectors[:, 0].numpy().T / tau
    if seen.exclude is not None:
        logits[tuple(seen.exclude.numpy().T)] = -np.inf
    return softmax(logits)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def entropy(p: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    return -(p * np.log(np.where(p > 0, p, 1))).sum(axis=-1)


def pairs(seed: int = 5, entropy_limit: float = 1.5) -> SourceLike:
    """A queue of four pairs whose largest entropy is `entropy_limit`."""
    entropies = torch.tensor([0.1, entropy_limit, 0.3, 0.2], dtype=torch.float64)
    known = unit(4, DIMENSION, seed=seed), unit(4, DIMENSION, seed=seed + 1)
    return SourceLike(*known, torch.arange(4).double(), entropies, batches=1)
