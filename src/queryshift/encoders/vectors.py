"""Queries that come as vectors: an embedding service's, or a vector database's own model's."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from queryshift.errors import BadInput, CannotAdapt
from queryshift.media.item_reading import described, read_each

from .adapted_parameters import Params
from .encoder import Encoder


class Vectors(Encoder):
    """An encoder for queries that are vectors already: it scales them to unit length.

    A session with it does all that needs no gradient: hub correction, `Frozen`, `TCRUntrained`,
    guards, reference queries, shadow mode, files (docs/hub-correction.md).

    Args:
        dimension: Numbers in each vector.
        model: A name for the model that makes them; a saved session is refused under another.

    Examples:
        >>> import queryshift as qs
        >>> gallery = qs.Gallery.from_vectors(["north", "east"], [[0.0, 1.0], [1.0, 0.0]])
        >>> session = qs.Session(qs.Vectors(2), gallery, qs.Frozen(), hubs=qs.Hubs())
        >>> session.answer([[0.2, 3.0], [1.0, 0.1]]).top(1).ids
        [['north'], ['east']]
    """

    def __init__(self, dimension: int, model: str = "") -> None:
        super().__init__()
        if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
            raise BadInput(
                f"dimension is {dimension!r}, expected a whole number of at least 1: how many "
                "numbers each vector has."
            )
        self.dimension = dimension
        self.model = model

    def prepare(self, items: Sequence[Any]) -> Tensor:
        """Vectors as they come, in float32 and at unit length.

        Args:
            items: Lists, arrays or tensors of numbers.

        Returns:
            A row (B, D) for each.
        """
        together = self._read_together(items)
        return torch.stack(read_each(items, self._read)) if together is None else together

    def forward(self, prepared: Tensor) -> Tensor:
        """The vectors, as they were prepared."""
        return prepared

    def norm_params(self) -> Params:
        """There are none: methods that adapt norm layers are refused."""
        raise CannotAdapt(
            "queries are given as vectors, and this method adapts the norm layers of an encoder, "
            "of which there is none: use Frozen() or TCRUntrained() with hubs=Hubs(), or load the "
            "model with queryshift.load."
        )

    def fingerprint(self) -> str:
        """A short hash of dimension and model name."""
        known_by = repr(("vectors", self.dimension, self.model))
        return blake2b(known_by.encode(), digest_size=16).hexdigest()

    def _read_together(self, items: Sequence[Any]) -> Tensor | None:
        """All at unit length; None where they must be looked at one by one."""
        if not all(_is_dense(one, self.dimension or 0) for one in items):
            return None
        vectors = torch.stack(list(items)).detach().double()
        largest = vectors.abs().amax(dim=1, keepdim=True)
        if not bool(((largest > 0) & torch.isfinite(largest)).all()):
            return None  # the first that is wrong is named
        return normalize(vectors / largest, dim=1).float()

    def _read(self, item: Any) -> Tensor:
        """One vector at unit length, or what is wrong with it."""
        try:
            vector = torch.as_tensor(np.array(item) if isinstance(item, np.ndarray) else item)
            if vector.is_complex():
                raise TypeError("complex numbers")
            vector = vector.detach().to("cpu", torch.float64).to_dense()
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise BadInput(f"got {described(item)}, expected {self.dimension} numbers.") from None
        if tuple(vector.shape) != (self.dimension,):
            raise BadInput(
                f"got a vector of shape {tuple(vector.shape)}, expected {self.dimension} numbers."
            )
        if not bool(torch.isfinite(vector).all()):
            raise BadInput("holds NaN or infinite values: repair or drop it, then ask again.")
        largest = vector.abs().amax()
        if float(largest) == 0:
            raise BadInput("is a zero vector, which is near nothing: drop it.")
        return normalize(vector / largest, dim=0).float()


def is_one_vector(queries: Any) -> bool:
    """Whether these are the numbers of a single vector, not a batch of vectors."""
    if isinstance(queries, Tensor | np.ndarray):
        return queries.ndim == 1 and len(queries) > 0 and queries.dtype != np.dtype(object)
    numbers = isinstance(queries, list | tuple) and len(queries) > 0
    return numbers and all(isinstance(one, Real) for one in queries)


def _is_dense(item: Any, dimension: int) -> bool:
    """Whether an item is a plain vector in memory."""
    if not isinstance(item, Tensor) or item.shape != (dimension,):
        return False
    return item.layout == torch.strided and item.device.type == "cpu" and not item.is_complex()
