"""Images with captions, as a dataset to be asked with either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from queryshift.media.lazy_items import LazyItems, Source

from ..dataset import Dataset


@dataclass(frozen=True)
class Captioned:
    """An image, all captions its publisher gives, and its domain or category."""

    name: str
    image: Source
    captions: Sequence[str]
    label: str = ""


class _Caption(NamedTuple):
    row: int  # of its image
    place: int  # among that image's captions
    text: str


def captioned(
    name: str,
    shown: Sequence[Captioned],
    query: str,
    most: int | None = None,
    left_out: Sequence[str] = (),
) -> Dataset:
    """Images asked for captions, or captions for images, of each the first `most` captions.

    A blank caption is left out. An image that has no other is a candidate, but no query.
    """
    given = [
        _Caption(row, place, text)
        for row, each in enumerate(shown)
        for place, text in enumerate(each.captions[:most])
    ]
    kept = [caption for caption in given if caption.text.strip()]
    blank = [
        f'caption {place} of "{shown[row].name}" is blank.'
        for row, place, text in given
        if not text.strip()
    ]
    build = _by_image if query == "image" else _by_caption
    return build(name, shown, kept, [*left_out, *blank])


def _by_image(
    name: str, shown: Sequence[Captioned], kept: Sequence[_Caption], left_out: Sequence[str]
) -> Dataset:
    own: list[list[int]] = [[] for _ in shown]
    for position, caption in enumerate(kept):
        own[caption.row].append(position)
    whole = Dataset(
        name,
        "image",
        "text",
        queries=LazyItems([each.image for each in shown]),
        query_ids=[each.name for each in shown],
        candidates=[caption.text for caption in kept],
        matches=own,
        candidate_ids=_ids(shown, kept),
        labels=[each.label for each in shown],
        counts=_counts(shown, kept),
        left_out=left_out,
    )
    return whole.asking([row for row, right in enumerate(own) if right])


def _by_caption(
    name: str, shown: Sequence[Captioned], kept: Sequence[_Caption], left_out: Sequence[str]
) -> Dataset:
    return Dataset(
        name,
        "text",
        "image",
        queries=[caption.text for caption in kept],
        query_ids=_ids(shown, kept),
        candidates=LazyItems([each.image for each in shown]),
        matches=[(caption.row,) for caption in kept],
        candidate_ids=[each.name for each in shown],
        labels=[shown[caption.row].label for caption in kept],
        counts=_counts(shown, kept),
        left_out=left_out,
    )


def _ids(shown: Sequence[Captioned], kept: Sequence[_Caption]) -> list[str]:
    return [f"{shown[caption.row].name}#{caption.place}" for caption in kept]


def _counts(shown: Sequence[Captioned], kept: Sequence[_Caption]) -> dict[str, int]:
    captions = sum(len(each.captions) for each in shown)
    return {"images": len(shown), "captions": captions, "pairs": len(kept)}
