"""What a session is made of: an encoder, a gallery, a method and perhaps a matcher."""

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
from queryshift.methods.base import Method

Candidates: TypeAlias = Searchable | Tensor | NDArray[Any]
"""What a session takes as its gallery."""


def check_parts(encoder: Any, gallery: Any, method: Any, matcher: Any) -> None:
    """Refuse what is no encoder, gallery, method or matcher, and say what is."""
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


def as_gallery(gallery: Any) -> Searchable:
    """A gallery as it is; an array of vectors as one that numbers them. All else is refused."""
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
    """Warn of queries whose encoder is none of the model's that built the gallery."""
    origin = getattr(gallery, "origin", None)  # galleries of one's own need not have one
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
            f"{own} is none of that model's encoders: load that model, or build the gallery anew.",
            stacklevel=5,
        )


def check_matcher(matcher: Any, gallery: Searchable) -> None:
    """Refuse what is no matcher over a gallery's candidates."""
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
