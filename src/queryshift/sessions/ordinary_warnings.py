"""What may be wrong with a sample of ordinary queries: another gallery, answers that are absent."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from hashlib import blake2b

import torch
from torch import Tensor

from queryshift.errors import NeedsVectors
from queryshift.galleries import Searchable

from .events import outside_level

NEAR, FAR = 10, 100  # hits whose distances from the first say whether that one stands out
STANDING_OUT = 0.9  # first to tenth over tenth to hundredth: without right answers about 0.7
LEAST = 1e-5  # distance of scores that counts
ROWS = 16  # candidates whose vectors tell galleries of the same ids apart


class OrdinaryWarning(UserWarning):
    """Ordinary queries were measured over another gallery, or their answers seem not to be there.

    Examples:
        >>> import warnings
        >>> import queryshift as qs
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", qs.OrdinaryWarning)  # as long as this block lasts
    """


def gallery_print(gallery: Searchable) -> str:
    """What tells a gallery from others: its version and, where it has vectors, some of theirs."""
    try:
        vectors = gallery.vectors
    except NeedsVectors:
        return gallery.version
    rows = vectors[:: max(1, len(vectors) // ROWS), 0]
    largest = rows.argmax(dim=1).tolist()  # the same on every device
    return f"{gallery.version}-{blake2b(repr(largest).encode(), digest_size=4).hexdigest()}"


def _alike(one: str, other: str) -> bool:
    """Whether two prints may be of one gallery; that of an engine has no part for the vectors."""
    (version, _, vectors), (others, _, other_vectors) = one.partition("-"), other.partition("-")
    return version == others and (not vectors or not other_vectors or vectors == other_vectors)


def warn_of_another_gallery(measured: str | None, gallery: Searchable) -> None:
    """Warn where a sample was measured over another gallery than this one."""
    if measured is not None and not _alike(measured, gallery_print(gallery)):
        warnings.warn(
            "the ordinary queries were measured over another gallery, and how near candidates lie "
            "may be different here: measure them over the session's own, or say that it does not "
            "matter: dataclasses.replace(ordinary, gallery=None).",
            OrdinaryWarning,
            stacklevel=outside_level(),
        )


def standing_out(scores: Tensor) -> float:
    """How far first hits stand out: first to tenth over tenth to hundredth, means over queries.

    Args:
        scores: Those of the best hundred candidates of each query (B, 100).
    """
    means = scores.mean(dim=0)
    first, near, far = (float(means[place]) for place in (0, NEAR - 1, FAR - 1))
    return (first - near) / max(near - far, LEAST)


def warn_of_absent_answers(found: Sequence[Tensor]) -> None:
    """Warn of a sample whose first hits are no nearer than those of a sample without answers."""
    if min(scores.shape[1] for scores in found) < FAR:
        return  # too few candidates to tell
    ratio = standing_out(torch.cat([scores[:, :FAR] for scores in found]))
    if ratio < STANDING_OUT:
        warnings.warn(
            f"the nearest candidates of these queries do not stand out from the next ones (ratio "
            f"{ratio:.2f}, expected {STANDING_OUT} or more): are their answers in the gallery? If "
            "they are not, or the queries are shifted already, a guard takes shifts for ordinary.",
            OrdinaryWarning,
            stacklevel=outside_level(),
        )
