"""What one process keeps between cells: models, galleries, queries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.matcher import Matcher, Matching
from queryshift.errors import BadInput
from queryshift.galleries import Gallery
from queryshift.models import load, matcher

from ..benchmarks import Benchmark
from ..corrupted_queries import Shifted, corruption_of
from .corrupted_folders import corrupted_beforehand
from .plans import Choices

if TYPE_CHECKING:
    from .plans import Task
    from .prepared_benchmark import Part, PreparedBenchmark

Value = TypeVar("Value")
MODELS, CATEGORIES = 2, 3  # kept at once; FashionIQ has three categories


class Recent(Generic[Value]):
    """The latest few values by key; the one that was used longest ago goes first."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._values: dict[Hashable, Value] = {}

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made where it is not there."""
        value = self._values.pop(key) if key in self._values else make()
        self._values[key] = value
        while len(self._values) > self._room:
            del self._values[next(iter(self._values))]
        return value


class RunContext:
    """Loaded models, the benchmark at hand, and the queries of its stream.

    A run has one, and so has each of its worker processes; each cache holds a few values.
    """

    def __init__(self) -> None:
        self._models: Recent[dict[str, Encoder]] = Recent(MODELS)
        self._matchers: Recent[Matcher] = Recent(1)
        self._benchmarks: Recent[PreparedBenchmark] = Recent(1)
        self._galleries: Recent[Gallery] = Recent(CATEGORIES)
        self._matchings: Recent[Matching] = Recent(1)  # it may hold much of each candidate
        self._queries: Recent[Sequence[Any]] = Recent(CATEGORIES)

    def encoders(self, row: Benchmark, choices: Choices) -> dict[str, Encoder]:
        """The model's encoders, or an error that says which model is wanted."""
        name, preprocessing = choices.model_for(row), choices.preprocessing_for(row)
        key = (name, choices.device, preprocessing)
        encoders = self._models.get(
            key,
            lambda: load(
                name, device=choices.device, precision="float32", preprocessing=preprocessing
            ),
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
        if not choices.matcher:
            return None
        encoders = self.encoders(row, choices)
        return self._matchers.get(
            (row, choices), lambda: matcher(encoders, row.query, choices.rerank_for(row))
        )

    def benchmark(self, name: str, fetch: Callable[[], PreparedBenchmark]) -> PreparedBenchmark:
        """The benchmark at hand, in a worker process that is sent its name with every cell."""
        return self._benchmarks.get(name, fetch)

    def encoder(self, prepared: PreparedBenchmark) -> Encoder:
        """The encoder of the queries."""
        return self.encoders(prepared.row, prepared.choices)[prepared.row.query]

    def gallery(self, prepared: PreparedBenchmark, part: Part) -> Gallery:
        """The candidates on the encoder's device, with the centroids they have by then."""
        device = self.encoder(prepared).device
        return self._galleries.get((part, device), lambda: part.gallery.to(device))

    def matching(self, prepared: PreparedBenchmark, part: Part) -> Matching | None:
        """The matcher over the candidates."""
        model = self.matcher(prepared.row, prepared.choices)
        if model is None:
            return None
        return self._matchings.get(part, lambda: model.over(part.dataset.candidates))

    def queries(self, prepared: PreparedBenchmark, part: Part, task: Task) -> Sequence[Any]:
        """The queries of a stream, kept for the next methods."""
        return self._queries.get(
            (part, *task.stream), lambda: _queries(prepared.row, prepared.choices, part, task)
        )


def _queries(row: Benchmark, choices: Choices, part: Part, task: Task) -> Sequence[Any]:
    if choices.folder is not None:
        return corrupted_beforehand(row, part.dataset, task.shift, task.severity, choices.folder)
    corruption = corruption_of(row, task.shift, choices)
    return Shifted(part.dataset, corruption, task.severity, task.seed)
