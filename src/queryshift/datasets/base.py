"""What a dataset is to a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import BadInput


@dataclass(frozen=True, eq=False)
class Dataset:
    """Queries of one modality, candidates of another, and who matches whom."""

    name: str
    query: str  # modality of the queries, "image+text" for composed ones
    gallery: str  # modality of the candidates
    queries: Sequence[Any]
    query_ids: Sequence[str]
    candidates: Sequence[Any]
    matches: Sequence[Sequence[int]]  # right candidates of each query, by position

    def __post_init__(self) -> None:
        counts = {len(self.queries), len(self.query_ids), len(self.matches)}
        if len(counts) != 1:
            raise BadInput(
                f"{self.name}: got {len(self.queries)} queries, {len(self.query_ids)} ids and "
                f"{len(self.matches)} lists of matches, expected as many of each."
            )

    def __len__(self) -> int:
        return len(self.queries)
