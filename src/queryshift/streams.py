"""The queries of a benchmark under one of its shifts, opened and corrupted when they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from .benchmarks import COMPOSED, Benchmark
from .corruptions import (
    COMBINATIONS,
    NAMES,
    REPRESENTATIVE,
    Corruption,
    both,
    combination,
    corrupt,
    families,
    find,
    one_of,
    segments,
)
from .datasets import Dataset
from .errors import BadInput

KEPT_BYTES = 2**28  # of corrupted queries, so that several methods are asked the same ones cheaply
TRANSLATED = "backtranslation"


def corruption_of(
    row: Benchmark, shift: str, translator: tuple[str, ...] = ()
) -> Corruption | None:
    """What happens to the queries of a row under a shift; None if they stay as they are.

    `translator` are the two models of back-translation. Without them, nothing that needs them is
    made, and queries with a shift each draw from the others.
    """
    if not row.corrupted:
        return None
    if row.diverse:
        return _drawn(row, row.query, translator)
    if shift not in row.shifts:
        raise BadInput(f'{row.name} has no shift "{shift}"; it has: {", ".join(row.shifts)}.')
    if needs_translator(row, shift) and not translator:
        raise BadInput(f'the shift "{shift}" needs translation models: give a translator.')
    if row.query == COMPOSED:
        image, text = shift.split("+")
        named = row.sentence if text == "sentence" else REPRESENTATIVE["text"][text]
        pair = (("image", REPRESENTATIVE["image"][image]), ("text", named))
        return both(*(_single(row, *one, translator) for one in pair))
    if shift in COMBINATIONS.get(row.query, ()):
        return combination(row.query, shift)
    return _single(row, row.query, shift, translator)


def needs_translator(row: Benchmark, shift: str) -> bool:
    """Whether a shift cannot be made without translation models."""
    return shift == TRANSLATED or (shift.endswith("+sentence") and row.sentence == TRANSLATED)


class Shifted(Sequence[Any]):
    """The queries of a dataset, each corrupted on first use with a generator of its own."""

    def __init__(
        self, dataset: Dataset, corruption: Corruption | None, severity: int, seed: int = 0
    ) -> None:
        self._dataset, self._corruption = dataset, corruption
        self._severity, self._seed = severity, seed
        self._kept: dict[int, Any] = {}
        self._room = KEPT_BYTES

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, row: Any) -> Any:
        if row not in self._kept:
            made = self._made(row)
            self._room -= weight(made)
            if self._room < 0:
                return made
            self._kept[row] = made
        return self._kept[row]

    def _made(self, row: int) -> Any:
        item = self._dataset.queries[row]  # past the end: IndexError, which ends an iteration
        if self._corruption is None:
            return item
        named = self._dataset.query_ids[row]
        return corrupt(item, self._corruption, self._severity, seed=self._seed, item_id=named)


def weight(item: Any) -> int:
    """Roughly how many bytes an item takes."""
    if isinstance(item, list | tuple):
        return sum(map(weight, item))
    item = getattr(item, "samples", item)
    if hasattr(item, "nbytes"):
        return int(item.nbytes)
    if hasattr(item, "size") and not isinstance(item, str):
        return 4 * int(item.size[0]) * int(item.size[1])
    return len(item) if isinstance(item, str) else 0


def _drawn(row: Benchmark, query: str, translator: tuple[str, ...]) -> Corruption:
    """One of all corruptions for each query; clips draw for each segment, pairs for each half."""
    if query == COMPOSED:
        return both(_drawn(row, "image", translator), _drawn(row, "text", translator))
    if query in COMBINATIONS:
        by_category = {name: one_of(*family) for name, family in families(query).items()}
        mixed = (shift.split("+") for shift in COMBINATIONS[query])
        return one_of(*(segments(*map(by_category.__getitem__, names)) for names in mixed))
    names = chain.from_iterable(NAMES[query].values())
    made = [name for name in names if translator or name != TRANSLATED]
    return one_of(*(_single(row, query, name, translator) for name in made))


def _single(row: Benchmark, modality: str, name: str, translator: tuple[str, ...]) -> Corruption:
    """The corruption of this name in the form the row wants."""
    if name == TRANSLATED:
        from .corruptions.text import sentence

        return sentence(TRANSLATED, backend="models", models=translator)
    if row.as_published and modality == "image":
        from .corruptions.image import preset

        return preset("mm_robustness")[name]
    if row.as_published and modality == "text" and name not in NAMES["text"]["sentence"]:
        from .corruptions.text import as_published

        return as_published(find("text", name))
    return find(modality, name)
