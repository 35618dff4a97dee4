"""What one process keeps between cells: models, galleries, queries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.matcher import Matcher, Matching
from queryshift.errors import BadInput
from queryshift.galleries import Gallery
from queryshift.models import load, matcher

from ..benchmarks import Benchmark
from ..corrupted_queries import Shifted, corruption_of
from .corrupted_folders import corrupted_beforehand
from .plans import Choices, Task

if TYPE_CHECKING:
    from .prepared_benchmark import Part, PreparedBenchmark

MODELS, CATEGORIES = 2, 3  # kept at once; FashionIQ has three categories


class RunContext:
    """Loaded models, the benchmark at hand, and the queries of its stream.

    A run has one, and so has each of its worker processes; each cache holds a few values, and
    leaves out the one that was used longest ago.
    """

    def __init__(self) -> None:
        self._load = lru_cache(MODELS)(partial(load, precision="float32"))
        self._matcher = lru_cache(1)(self._make_matcher)
        self._gallery = lru_cache(CATEGORIES)(lambda part, device: part.gallery.to(device))
        self._matching = lru_cache(1)(_matching)
        self._queries = lru_cache(CATEGORIES)(_queries)

    def encoders(self, row: Benchmark, choices: Choices) -> dict[str, Encoder]:
        """The model's encoders, or an error that says which model is wanted."""
        name = choices.model_for(row)
        encoders: dict[str, Encoder] = self._load(
            name, device=choices.device, preprocessing=choices.preprocessing_for(row)
        )
        lacking = [side for side in (row.query, row.gallery) if side not in encoders]
        if lacking:
            raise BadInput(
                f'the model "{name}" has no encoder for {lacking[0]}, only for '
                f"{', '.join(encoders)}: {row.name} needs {row.source}."
            )
        return encoders

    def matcher(self, row: Benchmark, choices: Choices) -> Matcher | None:
        """The model that re-ranks the best hits; None in the dual stream."""
        return self._matcher(row, choices) if choices.matcher else None

    def encoder(self, prepared: PreparedBenchmark) -> Encoder:
        """The encoder of the queries."""
        return self.encoders(prepared.row, prepared.choices)[prepared.row.query]

    def gallery(self, prepared: PreparedBenchmark, part: Part) -> Gallery:
        """The candidates on the encoder's device, with the centroids they have by then."""
        gallery: Gallery = self._gallery(part, self.encoder(prepared).device)
        return gallery

    def matching(self, prepared: PreparedBenchmark, part: Part) -> Matching | None:
        """The matcher over the candidates."""
        model = self.matcher(prepared.row, prepared.choices)
        return None if model is None else self._matching(model, part)

    def queries(self, prepared: PreparedBenchmark, part: Part, task: Task) -> Sequence[Any]:
        """The queries of a stream, kept for the next methods."""
        return self._queries(prepared.row, prepared.choices, part, *task.stream)

    def _make_matcher(self, row: Benchmark, choices: Choices) -> Matcher:
        return matcher(self.encoders(row, choices), row.query, choices.rerank_for(row))


def _matching(model: Matcher, part: Part) -> Matching:
    return model.over(part.dataset.candidates)


def _queries(
    row: Benchmark, choices: Choices, part: Part, shift: str, severity: int, seed: int
) -> Sequence[Any]:
    if choices.folder is not None:
        return corrupted_beforehand(row, part.dataset, shift, severity, choices.folder)
    return Shifted(part.dataset, corruption_of(row, shift, choices), severity, seed)
