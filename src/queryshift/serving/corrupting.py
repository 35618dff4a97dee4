"""Queries corrupted on purpose, for the page's slider; needs the laboratory."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from queryshift.errors import BadInput, MissingExtra
from queryshift.media.images import image_size

from .answering.queries import Raw, decoded, png
from .errors import NotFound

CORRUPTED = ("image", "text")  # kinds of queries that can be
PIXELS = 2**22  # of a picture that is corrupted: one takes seconds with more


def corruption_names(modality: str) -> list[str]:
    """The corruptions of a kind of query; none where the laboratory is not installed."""
    if modality not in CORRUPTED:
        return []
    try:
        names = import_module("queryshift.lab.corruptions.names").NAMES[modality]
    except ImportError:
        return []
    return [name for family in names.values() for name in family]


def corrupted(raw: Raw, modality: str, name: str, severity: int, place: int = 0) -> dict[str, Any]:
    """The query after a corruption, as a search takes it.

    Args:
        raw: the query.
        modality: "image" or "text".
        name: of the corruption.
        severity: 1 to 5.
        place: of the query among others; the noise of each is its own.
    """
    if modality not in CORRUPTED:
        raise NotFound(f"queries of {modality} cannot be corrupted here, only pictures and texts.")
    try:
        lab = import_module("queryshift.lab.corruptions")
        numpy, pillow = import_module("numpy"), import_module("PIL.Image")
    except ImportError as error:
        raise NotFound(f"corruptions need the laboratory: {error}") from error
    if modality == "image" and isinstance(raw, bytes):
        width, height = image_size(raw)
        if width * height > PIXELS:
            raise BadInput(
                f"{width} x {height} pixels are too many to corrupt: send a smaller one."
            )
    item = decoded(raw, modality)
    try:
        made = lab.corrupt(
            numpy.asarray(item) if modality == "image" else item,
            lab.find(modality, name),
            severity,
            seed=0,
            item_id=f"{name} {place}",
        )
    except MissingExtra as error:
        raise NotFound(str(error)) from error
    return {"image": png(pillow.fromarray(made))} if modality == "image" else {"text": made}
