"""A benchmark made ready to run: its datasets read, and their candidates embedded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile, BadInput
from queryshift.galleries import Gallery
from queryshift.lab.datasets import DATASETS, HOME, Dataset, found_at, usable
from queryshift.lab.datasets.reading.downloads import downloaded
from queryshift.lab.datasets.tangram import tangram

from ..benchmarks import Benchmark
from ..corrupted_queries import substitutes, translates
from ..own_benchmark import own_dataset
from .context import RunContext
from .gallery_cache import content_hash, embedded
from .plans import Choices

WITH_MATCHING = "with matching"  # in the paper's words, after a model's name


@dataclass(frozen=True, eq=False)
class Part:
    """A dataset with its candidates embedded, on the CPU; FashionIQ has one per category."""

    name: str
    dataset: Dataset
    gallery: Gallery
    content: str  # a hash of the candidates


@dataclass(frozen=True, eq=False)
class PreparedBenchmark:
    """A benchmark made ready. A value that can be sent to another process or machine."""

    row: Benchmark
    choices: Choices
    parts: tuple[Part, ...]
    skipped: tuple[str, ...]  # a sentence on each thing that could not be read
    settings: Mapping[str, Any]  # what must be the same in all cells of a table

    @property
    def model(self) -> str:
        """The model's name, and whether a matcher re-ranks."""
        name = self.choices.model_for(self.row)
        return f"{name} {WITH_MATCHING}" if self.choices.matcher else name

    def settings_under(self, shift: str) -> dict[str, Any]:
        """The settings that a shift depends on: translators count where something is translated."""
        used = translates(self.row, shift)
        made_here = self.choices.folder is None
        return {
            **self.settings,
            "translator": self.settings["translator"] if used else [],
            "not_as_published": list(substitutes(self.row, shift, self.choices)) * made_here,
        }

    @property
    def queries(self) -> int:
        """How many queries a cell asks."""
        return sum(len(part.dataset) for part in self.parts)


def prepare(
    row: Benchmark, choices: Choices, galleries: Path, context: RunContext
) -> PreparedBenchmark:
    """Load the model, read the datasets, and embed the candidates or find them in `galleries`."""
    _refuse_what_lacks(row, choices)
    context.matcher(row, choices)  # refused, where there is none, before anything long begins
    listed = {name: _listed(row, choices, name) for name in row.categories or ("",)}
    encoders = context.encoders(row, choices)
    readable = {name: _readable(row, choices, dataset) for name, dataset in listed.items()}
    folder = galleries / choices.preprocessing_for(row)  # the same weights see other vectors
    parts = tuple(
        Part(name, dataset, *embedded(encoders[row.gallery], dataset.candidates, folder))
        for name, (dataset, _) in readable.items()
    )
    skipped = tuple(sentence for _, problems in readable.values() for sentence in problems)
    settings = _settings(row, choices, parts, context)
    return PreparedBenchmark(row, choices, parts, skipped, settings)


def _refuse_what_lacks(row: Benchmark, choices: Choices) -> None:
    """Refuse early if the dataset's files or the model are missing."""
    lacking = []
    bring = row.on_disk and not row.file and not row.downloads
    if bring and found_at(row.dataset, choices.root) is None:
        place = f"set {HOME} to the folder that holds {row.dataset}/"
        lacking.append(f"the files of {row.dataset}: give --root, or {place}")
    if not choices.model_for(row):
        lacking.append(f"a model: give --model, {row.source}")
    if lacking:
        raise BadInput(f"{row.name} needs {'; and '.join(lacking)}.")


def _listed(row: Benchmark, choices: Choices, category: str) -> Dataset:
    """The queries and candidates as the annotations list them."""
    root = _root(row, choices) if row.on_disk and not row.file else None
    if row.file:
        whole = own_dataset(Path(row.file))
    elif root is None:
        whole = tangram(row.name.rsplit("-", 1)[1], row.split, look=row.part or "plain")
    else:
        whole = DATASETS[row.dataset](root, row.query, category or row.part or None)
    return whole if choices.queries is None else whole.asking(range(len(whole))[: choices.queries])


def _root(row: Benchmark, choices: Choices) -> Path | None:
    """The folder of the dataset's files; downloads them if the row says so."""
    place = found_at(row.dataset, choices.root)
    if choices.root or not row.downloads or (place and place.is_dir()):
        return place
    return downloaded(row.dataset, place)


def _readable(row: Benchmark, choices: Choices, listed: Dataset) -> tuple[Dataset, list[str]]:
    """The readable part of a dataset, and a sentence on each item left out."""
    if not row.on_disk:
        return listed, []
    dataset, problems = usable(listed, choices.strict)
    if not len(dataset):
        raise BadFile(f"{row.name}: none of {len(listed)} queries can be read. {problems[0]}")
    return dataset, problems


def _settings(
    row: Benchmark, choices: Choices, parts: Sequence[Part], context: RunContext
) -> dict[str, Any]:
    encoders, matcher = context.encoders(row, choices), context.matcher(row, choices)
    return {
        "queries": sum(len(part.dataset) for part in parts),
        "candidates": sum(len(part.gallery) for part in parts),
        "content": [part.content for part in parts],
        "asked": [content_hash(part.dataset.queries) for part in parts],
        "model_fingerprint": encoders[row.query].fingerprint(),
        "gallery_fingerprint": encoders[row.gallery].fingerprint(),
        "preprocessing": choices.preprocessing_for(row),
        "batch": row.batch,
        "as_published": row.as_published,
        "from_folder": choices.folder and str(choices.folder.resolve()),
        "translator": list(choices.translator),
        "noise": choices.noise and str(choices.noise.resolve()) if row.query == "audio" else None,
        "textures": choices.textures and str(choices.textures.resolve()),
        "styles": choices.styles and str(choices.styles.resolve()),
        "similarity": choices.similarity,
        "rerank": matcher and matcher.rerank,
        "matcher_fingerprint": matcher and matcher.fingerprint(),
    }
