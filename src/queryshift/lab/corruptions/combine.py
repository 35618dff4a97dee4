"""Corruptions made of corruptions: of categories by name, such as "noise+blur", or any others.

A mixture takes one stand-in per category, from the table `representative` of
`data/corruptions.toml`. `segments`, `one_of` and `both` mix any corruptions.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from queryshift.errors import BadInput, check_known

from .corruption import Composite, Corruption, check_severity
from .lookup import find
from .names import COMBINATIONS, REPRESENTATIVE

if TYPE_CHECKING:
    from numpy.random import Generator

Several = tuple[Corruption, ...]


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


def segments(*corruptions: Corruption) -> Corruption:
    """Cut a clip or waveform into as many parts as there are corruptions, one each, in order.

    Part i of k runs from floor(i n / k) to floor((i + 1) n / k) of the n frames or samples. Empty
    parts are skipped, so a clip of one frame gets the last corruption only.
    """
    return Composite(_call("segments", corruptions), _segments, (corruptions,))


def one_of(*corruptions: Corruption) -> Corruption:
    """Draw one of the corruptions for each item, all equally likely (the diverse protocol)."""
    return Composite(_call("one_of", corruptions), _one_of, (corruptions,))


def both(image: Corruption, text: Corruption) -> Corruption:
    """Corrupt a composed query `(image, text)` on its image and on its text."""
    return Composite(_call("both", (image, text)), _both, (image, text))


def _call(function: str, corruptions: Several) -> str:
    if not corruptions:
        raise BadInput(f"{function}() got no corruption; give at least one.")
    return f"{function}({', '.join(corruption.__name__ for corruption in corruptions)})"


def _segments(corruptions: Several, item: Any, severity: int, rng: Generator) -> Any:
    check_severity(severity)
    if not len(item):
        raise BadInput("got a clip or waveform of length 0; there is nothing to corrupt.")
    bounds = pairwise(
        index * len(item) // len(corruptions) for index in range(len(corruptions) + 1)
    )
    parts = [
        corruption(item[start:stop], severity, rng)
        for corruption, (start, stop) in zip(corruptions, bounds, strict=True)
        if start < stop
    ]
    if isinstance(item, list | tuple):
        return type(item)(chain.from_iterable(parts))
    from numpy import concatenate

    return concatenate(parts)


def _one_of(corruptions: Several, item: Any, severity: int, rng: Generator) -> Any:
    check_severity(severity)
    return corruptions[int(rng.integers(len(corruptions)))](item, severity, rng)


def _both(image: Corruption, text: Corruption, item: Any, severity: int, rng: Generator) -> Any:
    check_severity(severity)
    try:
        shown, said = item
    except (TypeError, ValueError):
        kind = type(item).__name__
        raise BadInput(f"a composed query is a pair (image, text); got {kind}.") from None
    return image(shown, severity, rng), text(said, severity, rng)
