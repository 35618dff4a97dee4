"""Small sessions to attack: an encoder of vectors with norm layers, a dozen candidates."""

from functools import cache
from typing import Any

import torch
from hostile_values import DIMENSION
from torch import Tensor, nn
from torch.nn.functional import normalize

from queryshift import METHODS, Encoder, Gallery, Session, Vectors

GRADIENTS = ("rest", "tcr", "tent", "eata", "sar", "tsa")


class SmallEncoder(Vectors):
    """Reads vectors as `Vectors` does, and has two norm layers that can adapt."""

    norm_params = Encoder.norm_params

    def __init__(self) -> None:
        super().__init__(DIMENSION)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.Sequential(
                nn.LayerNorm(DIMENSION), nn.Linear(DIMENSION, DIMENSION), nn.LayerNorm(DIMENSION)
            )

    def fingerprint(self) -> str:
        return "small"

    def forward(self, prepared: Tensor) -> Tensor:
        return normalize(prepared + self.layers(prepared), dim=1)


@cache
def encoder() -> SmallEncoder:
    return SmallEncoder()


@cache
def gallery() -> Gallery:
    drawn = torch.randn(12, DIMENSION, generator=torch.Generator().manual_seed(0))
    return Gallery.from_vectors([*"abcdefghij", 10, 11], drawn)


@cache
def _learnt(method: str, **settings: Any) -> Session:
    made = Session(encoder(), gallery(), METHODS[method](), lr=0.01, **settings)
    made.answer(list(torch.eye(DIMENSION)))
    return made


def session(method: str, **settings: Any) -> Session:
    """A session that has learnt from one batch: a fork, so that learning is paid for once."""
    return _learnt(method, **settings).fork()
