"""A dataset: queries, candidates and matches; and how images with captions become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from queryshift.errors import BadInput
from queryshift.media.lazy_items import LazyItems, Source, selected


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
    counts: Mapping[str, int] = field(default_factory=dict)  # of the publisher's files
    left_out: Sequence[str] = ()  # sentences on records that were left out

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
        """The same candidates with only these queries, in this order."""
        listed = ("queries", "query_ids", "matches", "exclude", "subsets", "labels")
        given = {name: values for name in listed if len(values := getattr(self, name))}
        kept: dict[str, Any] = {name: selected(values, rows) for name, values in given.items()}
        return replace(self, **kept)


@dataclass(frozen=True)
class Captioned:
    """An image, all captions its publisher gives, and its domain or category."""

    name: str
    image: Source
    captions: Sequence[str]
    label: str = ""


def captioned(
    name: str,
    shown: Sequence[Captioned],
    query: str,
    most: int | None = None,
    left_out: Sequence[str] = (),
) -> Dataset:
    """Images that search captions, or captions that search images; `most` captions of each.

    A blank caption is left out. An image that has no other is a candidate, but not a query.
    """
    rows, ids, texts, blank = [], list[str](), list[str](), list[str]()
    for row, each in enumerate(shown):
        for place, text in enumerate(each.captions[:most]):
            if text.strip():
                rows.append(row)
                ids.append(f"{each.name}#{place}")
                texts.append(text)
            else:
                blank.append(f'caption {place} of "{each.name}" is blank.')
    images, names = LazyItems([each.image for each in shown]), [each.name for each in shown]
    captions = sum(len(each.captions) for each in shown)
    about: dict[str, Any] = {
        "counts": {"images": len(shown), "captions": captions, "pairs": len(rows)},
        "left_out": [*left_out, *blank],
    }
    if query == "text":
        about["labels"] = [shown[row].label for row in rows]
        one = [(row,) for row in rows]
        return Dataset(name, "text", "image", texts, ids, images, one, names, **about)
    about["labels"] = [each.label for each in shown]
    matches: list[list[int]] = [[] for _ in shown]
    for position, row in enumerate(rows):
        matches[row].append(position)
    whole = Dataset(name, "image", "text", images, names, texts, matches, ids, **about)
    return whole.asking([row for row, right in enumerate(matches) if right])


def of_classes(
    name: str,
    modality: str,
    items: Sequence[tuple[str, Source, str]],
    classes: Sequence[str],
    sentences: Sequence[str],
) -> Dataset:
    """Items, each with its id and class, that search sentences made from the names of all classes.

    `sentences` have "{}" in the place of the name.
    """
    each, kinds = len(sentences), [kind for _, _, kind in items]
    rows = [classes.index(kind) for kind in kinds]
    return Dataset(
        name,
        modality,
        "text",
        queries=LazyItems([source for _, source, _ in items]),
        query_ids=[id for id, _, _ in items],
        candidates=[form.format(kind.replace("_", " ")) for kind in classes for form in sentences],
        matches=[range(each * row, each * (row + 1)) for row in rows],
        labels=kinds,
        counts={
            "audio" if modality == "audio" else "images": len(rows),
            "captions": each * len(classes),
            "pairs": each * len(rows),
        },
    )
