"""What a dataset is to a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from queryshift.errors import BadInput


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
