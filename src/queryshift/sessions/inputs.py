"""The parts that a user hands to a session, checked."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from queryshift.encoders.encoder import Encoder, check_encoder
from queryshift.encoders.matcher import Matching
from queryshift.encoders.vectors import Vectors
from queryshift.errors import BadInput, GalleryMismatch
from queryshift.galleries import EngineGallery, Gallery, Searchable
from queryshift.galleries.index_recall import ENOUGH, cached_recall
from queryshift.methods.base import Method

from .events import outside_level

Candidates: TypeAlias = Searchable | Tensor | NDArray[Any]
"""What a session accepts as its gallery."""


def check_parts(encoder: Any, gallery: Any, method: Any, matcher: Any) -> None:
    """Refuse a wrong encoder, gallery, method or matcher, and say what to pass."""
    check_encoder(encoder)
    if encoder.dimension not in (None, gallery.dimension):
        raise GalleryMismatch(
            f"{type(encoder).__name__} gives vectors of {encoder.dimension} dimensions, the "
            f"gallery has {gallery.dimension}: was it built by another model?"
        )
    _compare_origin(encoder, gallery)
    if not isinstance(method, Method):
        raise BadInput(f"got {method!r} as method, expected one with its settings: REST().")
    check_matcher(matcher, gallery)
    warn_of_recall(gallery)


def as_gallery(gallery: Any) -> Searchable:
    """A gallery itself, or an array of vectors as a gallery of numbered candidates."""
    if isinstance(gallery, Tensor | np.ndarray):
        return Gallery.from_vectors(None, gallery)
    if isinstance(gallery, type) or not hasattr(gallery, "search"):
        raise BadInput(
            f"got a {type(gallery).__name__} as gallery, expected an array or a tensor of vectors, "
            "or a gallery: Gallery.build(encoder, items), Gallery.from_vectors(ids, vectors)."
        )
    searchable: Searchable = gallery
    return searchable


def _compare_origin(encoder: Encoder, gallery: Searchable) -> None:
    """Warn if another model built the gallery."""
    origin = getattr(gallery, "origin", None)  # a user's own gallery may have none
    if origin is None or isinstance(encoder, Vectors):
        return
    loaded = encoder.origin
    if loaded is not None and loaded.encoders == origin.encoders:
        return
    own = encoder.fingerprint()
    if own not in origin.encoders.values():
        warnings.warn(
            f"the gallery was built by {origin.model} (its {origin.modality} encoder has the "
            f"fingerprint {origin.fingerprint}), and {type(encoder).__name__} with the fingerprint "
            f"{own} is none of that model's encoders: load that model, or build the gallery again.",
            stacklevel=outside_level(),
        )


def check_matcher(matcher: Any, gallery: Searchable) -> None:
    """Refuse anything but a matcher over the gallery's candidates."""
    if matcher is None:
        return
    if not isinstance(matcher, Matching):
        raise BadInput(
            f"got a {type(matcher).__name__} as matcher, expected one over the gallery's items: "
            "matcher.over(items)."
        )
    if matcher.places is None and isinstance(gallery, EngineGallery):
        raise BadInput(
            "got a matcher without ids over a search engine, whose candidates have no order: give "
            "each item's id, matcher.over(items, ids=ids)."
        )
    if len(matcher) != len(gallery):
        raise GalleryMismatch(
            f"the matcher is over {len(matcher)} candidates, the gallery has {len(gallery)}: "
            "make it over the gallery's own items, in their order."
        )


class RecallWarning(UserWarning):
    """A session searches an index with low recall, or whose recall was never measured.

    Examples:
        >>> import warnings
        >>> import queryshift as qs
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", qs.RecallWarning)  # as long as this block lasts
    """


def warn_of_recall(gallery: Searchable) -> None:
    """Warn, once for each gallery object, if its recall is low or unknown."""
    if not isinstance(gallery, EngineGallery) or gallery.exact or gallery.recall_told:
        return
    gallery.recall_told = True
    if text := _concern(gallery):
        warnings.warn(text, RecallWarning, stacklevel=outside_level())


def _concern(gallery: EngineGallery) -> str:
    """What is wrong with a gallery's recall; empty if nothing is."""
    check = cached_recall(gallery) if gallery.place else None
    if check is None:
        return (
            f"how much {gallery!r} finds of an exact search is not known, least of all for shifted "
            "queries: measure it with `queryshift gallery check ADDRESS --queries QUERIES`."
        )
    if check.recall >= ENOUGH:
        return ""
    return (
        f"{gallery!r} finds {check.recall:.3f} of the best ten candidates, less than {ENOUGH}, and "
        f"adaptation learns from what it finds: {check.advice}."
    )
