"""Ordinary queries: how near their nearest candidate those lie that the source model is good at."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import sqrt
from typing import Any, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.prepared import check_finite, several
from queryshift.errors import BadInput, NeedsVectors
from queryshift.galleries import Searchable
from queryshift.galleries.exclusions import Exclusion, excluded_pairs, exclusions_by_query
from queryshift.retrieval.forward import Forward
from queryshift.support.progress import track
from queryshift.support.setting_fields import check_values
from queryshift.support.torch_modes import adaptation_modes

from .events import outside_level

NEAR, FAR = 10, 100  # hits whose distances from the first say whether that one stands out
STANDING_OUT = 0.9  # first to tenth over tenth to hundredth: without right answers about 0.7
LEAST = 1e-5  # distance of scores that counts
ROWS = 16  # candidates whose vectors tell galleries of the same ids apart
ROUNDING = 1e-5  # cosines that differ by less are alike: queries that are candidates themselves
SEARCHED = 10  # hits, as many as the report of a batch looks at: one search serves both


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


@dataclass(frozen=True)
class Ordinary:
    """The cosine of ordinary queries and their nearest candidates, from a sample of them.

    Usually made by `Ordinary.of`, and given to a guard: `Guard(ordinary=...)`.

    Args:
        mean: Mean of the cosines.
        deviation: Their standard deviation.
        count: How many queries were measured.
        limit: Standard errors by which a batch may lie further from the gallery and be ordinary
            still.
        patience: Ordinary batches in a row that end a shift: what was learnt for it is given up.
        encoder: Fingerprint of the encoder that they were measured with, if it is known.
        gallery: What tells the gallery that they were measured over from others.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> yesterday = ["one red square", "the blue circles", "a big green star"]
        >>> ordinary = qs.Ordinary.of(text, gallery, yesterday)
        >>> ordinary.count, 0 < ordinary.mean <= 1
        (3, True)
        >>> session = qs.Session(text, gallery, qs.REST(), guard=qs.Guard(ordinary=ordinary))
    """

    mean: float
    deviation: float
    count: int
    limit: float = 3.0
    patience: int = 4
    encoder: str | None = None
    gallery: str | None = None

    def __post_init__(self) -> None:
        check_values(self, "ordinary queries")
        if self.limit < 0 or self.patience < 1:
            raise BadInput(
                f"got limit={self.limit} and patience={self.patience}, expected a limit of at "
                "least 0 and a patience of at least one batch."
            )
        if abs(self.mean) > 1.01:
            raise BadInput(
                f"got a mean cosine of {self.mean:.3g}, expected at most 1: normalise vectors in "
                "the encoder's forward()."
            )
        if self.deviation < ROUNDING or self.count < 2:
            raise BadInput(
                f"got {self.count} cosines that differ by {self.deviation:.1g}, expected two or "
                "more that differ: measure some hundred queries, and if they are candidates "
                "themselves, exclude each from its own search."
            )

    @classmethod
    @adaptation_modes()
    def of(
        cls,
        encoder: Encoder,
        gallery: Searchable,
        queries: Sequence[Any],
        *,
        exclude: Sequence[Exclusion] | None = None,
        limit: float = 3.0,
        patience: int = 4,
        batch_size: int = 64,
    ) -> Self:
        """Measure a sample of queries, some hundred, as they come when all is well.

        They must be of the same kind as the session's, over its gallery, with the exclusions that
        it is asked with; labels are not needed. Where their first hits do not stand out from the
        next ones, as if the right answers were not there, an `OrdinaryWarning` says so.

        Args:
            encoder: The encoder of the session.
            gallery: The gallery of the session.
            queries: The sample.
            exclude: For each query, candidates to leave out of its search.
            limit: As of `Ordinary`.
            patience: As of `Ordinary`.
            batch_size: Queries that are encoded at once.

        Returns:
            What was measured, with the encoder's fingerprint and what tells the gallery.
        """
        if batch_size < 1:
            raise BadInput(f"batch_size is {batch_size}, expected a whole number of at least 1.")
        asked, left_out = several(queries), exclusions_by_query(exclude)
        if left_out is not None and len(left_out) != len(asked):
            raise BadInput(f"got exclusions for {len(left_out)} of {len(asked)} queries: one each.")
        found = []
        for start in track(range(0, len(asked), batch_size), "measuring ordinary queries"):
            part = slice(start, start + batch_size)
            vectors = encoder.encode(asked[part])
            pairs = excluded_pairs(left_out and left_out[part], len(vectors), gallery)
            found.append(gallery.search(vectors, FAR, pairs).scores.cpu().double())
        cosines = torch.cat([scores[:, 0] for scores in found]) if found else torch.empty(0)
        check_finite(cosines, "the cosine of query")
        if len(cosines) < 2:
            raise BadInput(f"got {len(cosines)} ordinary queries, expected some hundred.")
        measured = float(cosines.mean()), float(cosines.std()), len(cosines)
        warn_of_absent_answers(found)
        return cls(*measured, limit, patience, encoder.fingerprint(), gallery_print(gallery))

    def check_fits(self, encoder: Encoder, gallery: Searchable) -> None:
        """Refuse an encoder other than the one that measured; warn of another gallery.

        Args:
            encoder: The encoder of a session.
            gallery: Its gallery.
        """
        if self.encoder not in (None, encoder.fingerprint()):
            raise BadInput(
                "the ordinary queries were measured with another encoder (fingerprint "
                f"{self.encoder}, this {type(encoder).__name__} has {encoder.fingerprint()}): "
                "measure them with the session's own."
            )
        warn_of_another_gallery(self.gallery, gallery)

    def strangeness(self, source: Forward) -> float:
        """How far a batch lies from ordinary queries.

        Args:
            source: The batch, seen by the source model and not ranked anew by a matcher.

        Returns:
            Standard errors by which its queries lie further from the gallery.
        """
        nearest: Tensor = source.hits(SEARCHED).scores[:, 0]
        error = self.deviation * sqrt(1 / len(nearest) + 1 / self.count)
        return (self.mean - float(nearest.mean())) / error

    def knows(self, source: Forward) -> bool:
        """Whether a batch is ordinary.

        Args:
            source: The batch, seen by the source model.

        Returns:
            Whether its strangeness is within the limit.
        """
        return self.strangeness(source) <= self.limit
