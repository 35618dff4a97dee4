"""A dataset: queries, candidates and matches; and how images with captions become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from queryshift.errors import BadInput
from queryshift.media.lazy_items import LazyItems, Source


@dataclass(frozen=True, eq=False)
class Dataset:
    """Queries of one modality, candidates of another, and which are right for which query."""

    name: str
    query: str  # modality of the queries, "image+text" for composed ones
    gallery: str  # modality of the candidates
    queries: Sequence[Any]
    query_ids: Sequence[str]
    candidates: Sequence[Any]
    matches: Sequence[Sequence[int]]  # right candidates of each query, by position
    candidate_ids: Sequence[str] = ()
    exclude: Sequence[Sequence[int]] = ()  # positions that are no answers to a query, if given
    subsets: Sequence[Sequence[int]] = ()  # the small set a query is also ranked in, if given
    labels: Sequence[str] = ()  # domain or category of each query, if given
    counts: Mapping[str, int] = field(default_factory=dict)  # what the publisher's files hold
    left_out: Sequence[str] = ()  # sentences on what was in the files and is not in here

    def __post_init__(self) -> None:
        counts = {len(self.queries), len(self.query_ids), len(self.matches)}
        if len(counts) != 1:
            raise BadInput(
                f"{self.name}: got {len(self.queries)} queries, {len(self.query_ids)} ids and "
                f"{len(self.matches)} lists of matches, expected as many of each."
            )
        for field_name in ("exclude", "subsets", "labels"):
            given = len(getattr(self, field_name))
            if given not in (0, len(self)):
                raise BadInput(
                    f"{self.name}: got {field_name} for {given} of {len(self)} queries: give them "
                    "for all or for none."
                )

    def __len__(self) -> int:
        return len(self.queries)

    def asking(self, rows: Sequence[int]) -> Dataset:
        """The same candidates, asked only these queries, in this order."""
        return replace(
            self,
            queries=at(self.queries, rows),
            query_ids=at(self.query_ids, rows),
            matches=at(self.matches, rows),
            exclude=at(self.exclude, rows) if self.exclude else (),
            subsets=at(self.subsets, rows) if self.subsets else (),
            labels=at(self.labels, rows) if self.labels else (),
        )


def at(items: Sequence[Any], rows: Sequence[int]) -> Sequence[Any]:
    """The items in these rows; those that open lazily stay so."""
    chosen = getattr(items, "chosen", None)
    return chosen(rows) if chosen else [items[row] for row in rows]


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
