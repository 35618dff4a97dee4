"""Checks of candidates, in memory and in engines: unique ids and finite unit vectors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from queryshift.encoders.prepared import check_finite
from queryshift.errors import BadInput, GalleryMismatch

from .hits import Id, is_id

LENGTH_TOLERANCE = 1e-2
EPSILONS = 8  # rounding error of a unit vector's length, in epsilons of its type
MAPPED_LENGTHS = (1e-15, 1e15)  # their squares are in float32's range
LOOKED_AT_ONCE = 2**24  # numbers: 64 MB in float32
STORED_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
Metric = Literal["cosine", "inner product", "euclidean"]
LOOKED_AT = 256  # vectors whose lengths are checked when a collection is opened
ROUNDING = 1e-5  # of lengths in float32: vectors this close to unit length are not rescaled
METRICS: dict[str, Metric] = {
    "cosine": "cosine",
    "ip": "inner product",
    "dot": "inner product",
    "l2": "euclidean",
    "euclid": "euclidean",
}


def checked_ids(ids: Any, expected: int) -> list[Id]:
    """Check that each candidate has an id of its own; return them as plain text and numbers."""
    if not hasattr(ids, "__iter__"):
        raise BadInput(f"got {ids!r} as ids, expected a list with one for each candidate.")
    plain: list[Id] = list(ids)
    if len(plain) != expected:
        raise BadInput(f"got {len(plain)} ids for {expected} candidates, expected one each.")
    if not set(map(type, plain)) <= {str, int}:
        plain = [_plain(one) for one in plain]
    if len(set(plain)) != len(plain):
        seen: set[Id] = set()
        twice = next(one for one in plain if one in seen or seen.add(one))  # type: ignore[func-returns-value]
        raise BadInput(f"the id {twice!r} stands more than once: every candidate needs its own.")
    return plain


def _plain(value: Any) -> Id:
    """Convert scalars of NumPy and torch to Python's; refuse what cannot be an id."""
    scalar = hasattr(value, "item") and getattr(value, "ndim", None) == 0
    if scalar and not getattr(value, "is_meta", False):
        value = value.item()
    if not is_id(value):
        raise BadInput(
            f"got the id {value!r}, a {type(value).__name__}, expected text or a whole number: "
            "str(...) makes it text."
        )
    return cast(Id, value)


def as_tensor(vectors: Any) -> Tensor:
    """Convert a tensor, an array, or a list of either to one tensor."""
    if isinstance(vectors, Tensor):
        return vectors
    try:
        first = vectors[0] if isinstance(vectors, Sequence) and len(vectors) else None
        if isinstance(first, Tensor):
            return torch.stack(list(vectors))
        if isinstance(first, np.ndarray):
            vectors = np.stack(vectors)
        if isinstance(vectors, np.ndarray) and not vectors.flags.writeable:
            vectors = vectors.copy()  # torch warns about read-only memory
        return torch.as_tensor(vectors)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise BadInput(
            f"got gallery vectors that make no tensor ({error}), expected numbers of shape "
            "(candidates, dimensions)."
        ) from error


def as_array(vectors: Tensor) -> NDArray[np.float32]:
    """Convert vectors to an array in float32, as engines take them."""
    return np.ascontiguousarray(vectors.detach().to("cpu", torch.float32).numpy())


def checked_vectors(vectors: Tensor, rescale: bool) -> Tensor:
    """Return finite unit vectors (N, V, D); an error names the first bad candidate."""
    if vectors.layout != torch.strided or vectors.is_meta:
        raise BadInput(
            f"got gallery vectors as a {'meta' if vectors.is_meta else 'sparse'} tensor, expected "
            "all of their values in memory: vectors.to_dense() gives a sparse tensor's."
        )
    if vectors.ndim == 2:
        vectors = vectors[:, None]
    if vectors.ndim != 3 or 0 in vectors.shape or vectors.dtype not in STORED_TYPES:
        raise BadInput(
            f"got gallery vectors of shape {tuple(vectors.shape)} and type {vectors.dtype}, "
            "expected floating-point (candidates, dimensions) or (candidates, several, "
            "dimensions) with at least one candidate."
        )
    check_finite(vectors, "candidate")
    largest = vectors.abs().amax(dim=2)
    if bool((largest == 0).any()):
        first = int((largest == 0).any(dim=1).nonzero()[0])
        raise BadInput(f"candidate {first} has a zero vector, which is near nothing: drop it.")
    if rescale:
        return _rescaled(vectors, largest)
    lengths = _lengths(vectors)
    if bool(((lengths - 1).abs() > LENGTH_TOLERANCE).any()):
        raise BadInput(
            f"the encoder gave vectors of length {float(lengths.min()):.3g} to "
            f"{float(lengths.max()):.3g}, expected unit length: normalise them in forward()."
        )
    return vectors


def unit_vectors(vectors: Any) -> Tensor:
    """Return a copy of vectors (N, D) or (N, V, D) as unit vectors (N, V, D)."""
    return checked_vectors(as_tensor(vectors), rescale=True)


def vectors_and_lengths(vectors: Any) -> tuple[Tensor, Tensor | None]:
    """Return vectors (N, V, D), and their lengths (N, V) if a search must divide scores by them.

    A memory map stays on disk, and its lengths are returned unless all are 1. Other vectors are
    scaled to unit length.
    """
    mapped = _mapped(vectors) if isinstance(vectors, np.memmap) else None
    return (unit_vectors(vectors), None) if mapped is None else mapped


def _mapped(vectors: np.memmap[Any, Any]) -> tuple[Tensor, Tensor | None] | None:
    """Return a memory map's vectors (N, V, D) and lengths; None if they cannot stay on disk."""
    with warnings.catch_warnings():  # torch warns about read-only memory
        warnings.simplefilter("ignore", UserWarning)
        mapped = torch.from_numpy(vectors)
    mapped = mapped[:, None] if mapped.ndim == 2 else mapped
    if mapped.ndim != 3 or mapped.dtype not in STORED_TYPES or 0 in mapped.shape:
        return None
    lengths = _lengths_in_chunks(mapped)
    rounding = EPSILONS * torch.finfo(mapped.dtype).eps
    if bool(((lengths - 1).abs() <= rounding).all()):
        return mapped, None
    shortest, longest = MAPPED_LENGTHS
    usable = bool(((lengths >= shortest) & (lengths <= longest)).all())  # NaN is not
    return (mapped, lengths) if usable else None


def check_searched(queries: Any, exclude: Any, dimension: int) -> None:
    """Refuse queries that are not float vectors of this dimension, and exclusions without pairs."""
    if not isinstance(queries, Tensor) or queries.is_meta or queries.layout != torch.strided:
        raise BadInput(
            f"got {_kind(queries)} as query vectors, expected a tensor of unit vectors (queries, "
            "dimensions) in memory."
        )
    if not queries.is_floating_point():
        raise BadInput(f"got query vectors of type {queries.dtype}, expected floating-point ones.")
    if queries.ndim != 2 or queries.shape[1] != dimension:
        raise GalleryMismatch(
            f"got query vectors of shape {tuple(queries.shape)}, expected (queries, {dimension}), "
            "as the gallery's are."
        )
    if exclude is None:
        return
    if not isinstance(exclude, Tensor) or exclude.dtype != torch.long or exclude.shape[1:] != (2,):
        raise BadInput(
            f"got {_kind(exclude)} as pairs to leave out, expected whole numbers (pairs, 2): a "
            "query's row and a candidate's position."
        )


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} of {value.dtype}, {value.layout} on {value.device},"
    return f"a {type(value).__name__}"


def check_unit_length(vectors: Tensor) -> None:
    """Refuse stored vectors (N, V, D) that are not finite unit vectors."""
    if vectors.dtype not in STORED_TYPES:
        raise BadInput(f"got vectors of type {vectors.dtype}, expected floating-point ones.")
    lengths = _lengths_in_chunks(vectors)
    wrong = ~((lengths - 1).abs() <= LENGTH_TOLERANCE)  # NaN is neither
    if bool(wrong.any()):
        row, vector = wrong.nonzero()[0].tolist()
        length = float(lengths[row, vector])
        raise BadInput(f"candidate {row} has a vector of length {length:.3g}, expected length 1.")


def _lengths_in_chunks(vectors: Tensor) -> Tensor:
    """Return the same as `_lengths`, without a copy of all vectors in memory."""
    rows = max(1, LOOKED_AT_ONCE // vectors[0].numel())
    return torch.cat([_lengths(chunk) for chunk in torch.split(vectors, rows)])


def _lengths(vectors: Tensor) -> Tensor:
    """Return Euclidean lengths (N, V), in float32 or wider."""
    wide = torch.promote_types(vectors.dtype, torch.float32)
    return cast(Tensor, torch.linalg.vector_norm(vectors, dim=2, dtype=wide))


def _rescaled(vectors: Tensor, largest: Tensor) -> Tensor:
    """Scale vectors to unit length, in two steps where squares leave the type's range."""
    lengths = _lengths(vectors)
    outside = ~torch.isfinite(lengths) | (lengths == 0)
    if bool(outside.any()):
        factors = torch.where(outside, largest.to(lengths), 1)
        vectors = vectors.to(lengths) / factors[..., None]
        return torch.div(vectors, _lengths(vectors)[..., None]).to(largest.dtype)
    return torch.div(vectors, lengths[..., None]).to(vectors.dtype)


def checked_engine_vectors(vectors: Any, dimension: int, metric: Metric) -> Tensor:
    """Return vectors (n, D) or (n, V, D) as unit vectors (n, V, D) in float32, or raise.

    An engine that ranks by cosine may store vectors of any length: they are rescaled. By inner
    product or distance, longer vectors would rank first, so they are refused.
    """
    plain = torch.from_numpy(np.array(vectors, dtype=np.float32))
    if plain.ndim not in (2, 3) or plain.shape[-1] != dimension:
        raise GalleryMismatch(
            f"the engine gave vectors of shape {tuple(plain.shape)}, expected (candidates, "
            f"{dimension}): is it the right collection and vector field?"
        )
    lengths = torch.linalg.vector_norm(plain, dim=-1)
    wrong = (lengths - 1).abs()
    if bool((wrong <= ROUNDING).all()):
        return plain if plain.ndim == 3 else plain[:, None]
    if metric != "cosine" and bool((wrong > LENGTH_TOLERANCE).any()):
        raise BadInput(
            f"the engine ranks by {metric} and holds vectors of length {float(lengths.min()):.3g} "
            f"to {float(lengths.max()):.3g}, so that long ones come first: store unit vectors, or "
            "make the index for cosine."
        )
    return checked_vectors(plain, rescale=metric == "cosine")


def plain_id(stored: Any) -> Id:
    """Return an id as sessions take it: whole numbers stay, everything else becomes text.

    Examples:
        >>> from queryshift.galleries.candidate_checks import plain_id
        >>> plain_id(7), plain_id("seven"), plain_id(7.5)
        (7, 'seven', '7.5')
    """
    whole = isinstance(stored, int | np.integer) and not isinstance(stored, bool)
    return int(stored) if whole else str(stored)


def known_metric(collection: str, metric: str) -> Metric:
    """Return the metric of a collection; refuse one that does not rank as the cosine does.

    Args:
        collection: Its name, for errors.
        metric: The engine's word for it.

    Examples:
        >>> from queryshift.galleries.candidate_checks import known_metric
        >>> known_metric("items", "IP")
        'inner product'
    """
    if metric.lower() not in METRICS:
        raise GalleryMismatch(
            f'"{collection}" is searched by the metric "{metric}", expected cosine, or inner '
            "product or Euclidean distance of unit vectors: make its index again with cosine."
        )
    return METRICS[metric.lower()]
