"""What a user may choose about a benchmark, beside shifts, methods and seeds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from queryshift.models import PUBLISHED_RERANK

from ..benchmarks import PAPER, Benchmark
from ..corruption_assets import CorruptionAssets


@dataclass(frozen=True, kw_only=True)
class Choices(CorruptionAssets):
    """The model, the dataset's files, and how queries are read, corrupted and ranked."""

    model: str = ""  # empty: the row's own
    root: Path | None = None  # of the dataset's files; None: where datasets lie
    queries: int | None = None  # so many, the first of each dataset; None: all of them
    folder: Path | None = None  # of queries corrupted beforehand
    strict: bool = False  # what cannot be read is an error
    device: str = "cpu"
    preprocessing: str = ""  # "published" or "library"; empty: as the paper did, on its rows
    matcher: bool = False  # single stream: the model's matching head re-ranks the best hits
    rerank: int | None = None  # so many of them; None: as published

    def model_for(self, row: Benchmark) -> str:
        """What `load` is given."""
        return self.model or row.model

    def preprocessing_for(self, row: Benchmark) -> str:
        """How items are read."""
        return self.preprocessing or ("published" if row.series in PAPER else "library")

    def rerank_for(self, row: Benchmark) -> int | None:
        """How many hits the matcher re-ranks; None: as many as the matcher recommends."""
        published = (many for key, many in PUBLISHED_RERANK.items() if row.dataset.startswith(key))
        return self.rerank or next(published, None)
