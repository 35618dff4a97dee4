"""Said once when a session starts over an index whose recall is low, or not known."""

from __future__ import annotations

import warnings

from queryshift.galleries import EngineGallery, Searchable
from queryshift.galleries.kept_checks import kept_check
from queryshift.galleries.recall import ENOUGH

from .events import outside_level


class RecallWarning(UserWarning):
    """A session searches an index that finds too little, or whose recall was never measured.

    Examples:
        >>> import warnings
        >>> import queryshift as qs
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", qs.RecallWarning)  # as long as this block lasts
    """


def warn_of_recall(gallery: Searchable) -> None:
    """Say, once for each gallery object, that its recall is low or not known."""
    if not isinstance(gallery, EngineGallery) or gallery.exact or gallery.recall_told:
        return
    gallery.recall_told = True
    if text := _concern(gallery):
        warnings.warn(text, RecallWarning, stacklevel=outside_level())


def _concern(gallery: EngineGallery) -> str:
    """What is wrong with a gallery's recall, or nothing."""
    check = kept_check(gallery) if gallery.place else None
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
