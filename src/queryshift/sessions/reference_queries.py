"""Reference queries: how close normal queries are to their nearest candidates.

A session compares each batch with them, and warns if they were measured over another gallery or
if their answers seem to be missing.
"""

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
from queryshift.support.deprecation import warn_renamed
from queryshift.support.progress import track
from queryshift.support.setting_fields import check_values
from queryshift.support.torch_modes import adaptation_modes

from .events import outside_level

ROUNDING = 1e-5  # smaller differences between cosines, or between scores, are rounding
SEARCHED = 10  # hits: as many as the batch statistics use, so that one search serves both
NEAR, FAR = 10, 100  # ranks that show whether the top-1 result is clearly closer than the rest
LEAST_RATIO = 0.9  # (top-1 to rank 10) / (rank 10 to 100); about 0.7 if right answers are missing
ROWS = 16  # candidates whose vectors distinguish galleries with equal ids


class ReferenceWarning(UserWarning):
    """Reference queries were measured over another gallery, or their answers seem to be missing.

    Examples:
        >>> import warnings
        >>> import queryshift as qs
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", qs.ReferenceWarning)  # inside this block
    """


@dataclass(frozen=True)
class ReferenceQueries:
    """Cosines between normal queries and their nearest candidates, from a sample of queries.

    Make it with `ReferenceQueries.of` and pass it to a guard: `Guard(reference=...)`.

    Args:
        mean: Mean of the cosines.
        deviation: Their standard deviation.
        count: Number of measured queries.
        limit: Largest shift score of a batch that counts as normal.
        patience: Number of normal batches in a row after which the session resets.
        encoder: Fingerprint of the encoder that measured them, if known.
        gallery: Identifies the gallery that they were measured over.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> yesterday = ["one red square", "the blue circles", "a big green star"]
        >>> reference = qs.ReferenceQueries.of(text, gallery, yesterday)
        >>> reference.count, 0 < reference.mean <= 1
        (3, True)
        >>> session = qs.Session(text, gallery, qs.REST(), guard=qs.Guard(reference=reference))
    """

    mean: float
    deviation: float
    count: int
    limit: float = 3.0
    patience: int = 4
    encoder: str | None = None
    gallery: str | None = None

    def __post_init__(self) -> None:
        check_values(self, "reference queries")
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
                f"got {self.count} cosines with a standard deviation of {self.deviation:.1g}, "
                "expected at least two different ones: measure a few hundred queries, and if they "
                "are candidates themselves, exclude each from its own search."
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
        """Measure a sample of a few hundred normal queries; labels are not needed.

        Use the session's kind of query, its gallery, and the exclusions that it gets. If the top-1
        results are hardly closer than the next ones, as if the right answers were missing from the
        gallery, a `ReferenceWarning` says so.

        Args:
            encoder: The encoder of the session.
            gallery: The gallery of the session.
            queries: The sample.
            exclude: For each query, candidates to leave out of its search.
            limit: See `ReferenceQueries`.
            patience: See `ReferenceQueries`.
            batch_size: Number of queries to encode at once.

        Returns:
            The measured sample, with the encoder's fingerprint and the gallery's.
        """
        if batch_size < 1:
            raise BadInput(f"batch_size is {batch_size}, expected a whole number of at least 1.")
        queries = several(queries)
        excluded = exclusions_by_query(exclude, len(queries))
        found = []
        for start in track(range(0, len(queries), batch_size), "measuring reference queries"):
            part = slice(start, start + batch_size)
            vectors = encoder.encode(queries[part])
            pairs = excluded_pairs(excluded and excluded[part], len(vectors), gallery)
            found.append(gallery.search(vectors, FAR, pairs).scores.cpu().double())
        cosines = torch.cat([scores[:, 0] for scores in found]) if found else torch.empty(0)
        check_finite(cosines, "the cosine of query")
        if len(cosines) < 2:
            raise BadInput(f"got {len(cosines)} reference queries, expected a few hundred.")
        measured = float(cosines.mean()), float(cosines.std()), len(cosines)
        _warn_of_missing_answers(found)
        return cls(*measured, limit, patience, encoder.fingerprint(), gallery_print(gallery))

    def check_fits(self, encoder: Encoder, gallery: Searchable) -> None:
        """Refuse an encoder other than the one that measured; warn about another gallery.

        Args:
            encoder: The encoder of a session.
            gallery: Its gallery.
        """
        if self.encoder not in (None, encoder.fingerprint()):
            raise BadInput(
                "the reference queries were measured with another encoder (fingerprint "
                f"{self.encoder}, this {type(encoder).__name__} has {encoder.fingerprint()}): "
                "measure them with the session's encoder."
            )
        if self.gallery is not None and not _alike(self.gallery, gallery_print(gallery)):
            warnings.warn(
                "the reference queries were measured over another gallery, where candidates may "
                "be closer or farther: measure them over the session's gallery, or switch this "
                "check off: dataclasses.replace(reference, gallery=None).",
                ReferenceWarning,
                stacklevel=outside_level(),
            )

    def shift_score(self, source: Forward) -> float:
        """How much farther a batch is from its nearest candidates than the reference queries are.

        Args:
            source: The batch through the source model, before any re-ranking.

        Returns:
            Mean cosine of the reference queries minus the batch's, in standard errors.
        """
        nearest: Tensor = source.hits(SEARCHED).scores[:, 0]
        error = self.deviation * sqrt(1 / len(nearest) + 1 / self.count)
        return (self.mean - float(nearest.mean())) / error

    def strangeness(self, source: Forward) -> float:
        """The old name of `shift_score`.

        Args:
            source: The batch through the source model.

        Returns:
            Its shift score.
        """
        warn_renamed("ReferenceQueries.strangeness", "ReferenceQueries.shift_score")
        return self.shift_score(source)

    def knows(self, source: Forward) -> bool:
        """Whether a batch looks like the reference queries.

        Args:
            source: The batch through the source model.

        Returns:
            Whether its shift score is within the limit.
        """
        return self.shift_score(source) <= self.limit


def gallery_print(gallery: Searchable) -> str:
    """A text that identifies a gallery: its version and, if it has vectors, a hash of some."""
    try:
        vectors = gallery.vectors
    except NeedsVectors:
        return gallery.version
    rows = vectors[:: max(1, len(vectors) // ROWS), 0]
    largest = rows.argmax(dim=1).tolist()  # the same on every device
    return f"{gallery.version}-{blake2b(repr(largest).encode(), digest_size=4).hexdigest()}"


def _alike(one: str, other: str) -> bool:
    """Whether two prints may be of one gallery; an engine's print has no hash of vectors."""
    (version, _, vectors), (others, _, other_vectors) = one.partition("-"), other.partition("-")
    return version == others and (not vectors or not other_vectors or vectors == other_vectors)


def _warn_of_missing_answers(found: Sequence[Tensor]) -> None:
    """Warn if the top-1 results are no closer than in samples without right answers."""
    if min(scores.shape[1] for scores in found) < FAR:
        return  # too few candidates to tell
    means = torch.cat([scores[:, :FAR] for scores in found]).mean(dim=0)
    first, near, far = (float(means[rank - 1]) for rank in (1, NEAR, FAR))
    ratio = (first - near) / max(near - far, ROUNDING)
    if ratio < LEAST_RATIO:
        warnings.warn(
            "the nearest candidates of these queries are hardly closer than the next ones (ratio "
            f"{ratio:.2f}, expected {LEAST_RATIO} or more): are their answers in the gallery? If "
            "not, or if the queries are shifted already, the guard takes shifted batches for "
            "normal ones.",
            ReferenceWarning,
            stacklevel=outside_level(),
        )
