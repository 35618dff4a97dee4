"""Query shifts over four modalities: look one up by name, combine them, apply them seeded.

A folder or file per modality; `files/` corrupts files and folders. Imports: `errors`, `support`,
`media`. Start with `corruption.py`, then `image/noise.py`. Importing this package loads no numpy
and no OpenCV; the first corruption that is used does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from queryshift.errors import check_known

from .combine import both, one_of, segments
from .corruption import SEVERITIES, Corruption, check_severity, corrupt, generator
from .names import COMBINATIONS, MODALITIES, NAMES, REPRESENTATIVE

__all__ = [
    "COMBINATIONS",
    "MODALITIES",
    "NAMES",
    "REPRESENTATIVE",
    "SEVERITIES",
    "Corruption",
    "both",
    "check_severity",
    "combination",
    "corrupt",
    "families",
    "find",
    "generator",
    "one_of",
    "segments",
]


def families(modality: str) -> Mapping[str, tuple[Corruption, ...]]:
    """The corruptions of one modality, by the paper's categories."""
    check_known("modality", modality, MODALITIES)
    table: Mapping[str, tuple[Corruption, ...]] = import_module(f"{__name__}.{modality}").FAMILIES
    return table


def find(modality: str, name: str) -> Corruption:
    """The corruption called `name`, the paper's or another."""
    table = families(modality)
    ours = getattr(import_module(f"{__name__}.{modality}"), "OURS", ())
    known = {one.__name__: one for family in (*table.values(), ours) for one in family}
    check_known(f"{modality} corruption", name, known)
    return known[name]


def combination(
    modality: str,
    name: str,
    single: Callable[[str, str], Corruption] = find,
    sentence: str = "backtranslation",
) -> Corruption:
    """One of the paper's combinations of categories, each by its representative subtype.

    "video" and "audio" are cut into segments; "image+text" is corrupted on both halves. `single`
    makes a corruption of a modality by name, `sentence` is the one for whole sentences.
    """
    check_known("modality with combinations", modality, COMBINATIONS)
    check_known(f"{modality} combination", name, COMBINATIONS[modality])
    categories = name.split("+")
    if modality != "image+text":
        return segments(*(single(modality, REPRESENTATIVE[modality][each]) for each in categories))
    image, text = categories
    change = sentence if text == "sentence" else REPRESENTATIVE["text"][text]
    return both(single("image", REPRESENTATIVE["image"][image]), single("text", change))
