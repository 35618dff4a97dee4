"""What all cells of a benchmark stand on: the model, the queries, the embedded candidates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.matcher import Matcher
from queryshift.errors import BadFile, BadInput
from queryshift.galleries import Gallery
from queryshift.lab.datasets import DATASETS, HOME, Dataset, found_at, usable
from queryshift.lab.datasets.items import Composed, LazyItems
from queryshift.lab.datasets.tangram import tangram
from queryshift.models import PUBLISHED_RERANK, load, matcher
from queryshift.support.progress import track

from ..benchmarks import Benchmark
from ..streams import translates

GALLERY_BATCH = 256
WITH_MATCHING = "with matching"  # in the paper's words, after a model's name


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a user may choose about a benchmark, beside shifts, methods and seeds."""

    model: str = ""  # empty: the row's own
    root: Path | None = None  # of the dataset's files; None: where datasets lie
    queries: int | None = None  # so many, the first of each dataset; None: all of them
    folder: Path | None = None  # of queries corrupted beforehand
    translator: tuple[str, ...] = ()  # two models, for back-translation
    noise: Path | None = None  # recordings that sounds are corrupted with, as READ published it
    strict: bool = False  # what cannot be read is an error
    device: str = "cpu"
    preprocessing: str = ""  # "published" or "library"; empty: as the paper did, on its rows
    matcher: bool = False  # single stream: the model's matching head ranks the best hits anew
    rerank: int | None = None  # so many of them; None: as published


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
        """What answers, in words: what `load` was given, and whether a matcher ranks anew."""
        name = self.choices.model or self.row.model
        return f"{name} {WITH_MATCHING}" if self.choices.matcher else name

    def settings_under(self, shift: str) -> dict[str, Any]:
        """The settings that a shift depends on: translators count where something is translated."""
        used = translates(self.row, shift)
        return {**self.settings, "translator": self.settings["translator"] if used else []}

    @property
    def queries(self) -> int:
        """How many queries a cell asks."""
        return sum(len(part.dataset) for part in self.parts)

    def encoder(self) -> Encoder:
        """The encoder of the queries, loaded once in each process."""
        return encoders(self.row, self.choices)[self.row.query]

    def matcher(self) -> Matcher | None:
        """What ranks the best hits anew, made once in each process; None in the dual stream."""
        return _matcher(self.row, self.choices) if self.choices.matcher else None


def prepare(row: Benchmark, choices: Choices, kept: Path) -> PreparedBenchmark:
    """Load the model, read the datasets and embed the candidates, or find them in `kept`."""
    _refuse_what_lacks(row, choices)
    asked = {name: _asked(row, choices, name) for name in row.categories or ("",)}
    model = encoders(row, choices)
    read = {name: _readable(row, choices, dataset) for name, dataset in asked.items()}
    home = kept / _preprocessing(row, choices)  # the same weights see other vectors in each
    parts = tuple(
        Part(name, dataset, *embedded(model[row.gallery], dataset.candidates, home))
        for name, (dataset, _) in read.items()
    )
    skipped = tuple(sentence for _, problems in read.values() for sentence in problems)
    return PreparedBenchmark(row, choices, parts, skipped, _settings(row, choices, model, parts))


def encoders(row: Benchmark, choices: Choices) -> dict[str, Encoder]:
    """The model's encoders, or an error that says which model is wanted."""
    name = choices.model or row.model
    model = _loaded(name, choices.device, _preprocessing(row, choices))
    lacking = [side for side in (row.query, row.gallery) if side not in model]
    if lacking:
        raise BadInput(
            f'the model "{name}" has no encoder for {lacking[0]}, only for {", ".join(model)}: '
            f"{row.name} needs {row.source}."
        )
    return model


@lru_cache(maxsize=2)
def _loaded(name: str, device: str, preprocessing: str) -> dict[str, Encoder]:
    return load(name, device=device, precision="float32", preprocessing=preprocessing)


@lru_cache(maxsize=1)
def _matcher(row: Benchmark, choices: Choices) -> Matcher:
    published = (many for name, many in PUBLISHED_RERANK.items() if row.dataset.startswith(name))
    return matcher(encoders(row, choices), row.query, choices.rerank or next(published, None))


def _preprocessing(row: Benchmark, choices: Choices) -> str:
    return choices.preprocessing or ("published" if row.on_disk else "library")


def _refuse_what_lacks(row: Benchmark, choices: Choices) -> None:
    """Say all that a user has yet to bring, before anything long begins."""
    lacking = []
    if row.on_disk and found_at(row.dataset, choices.root) is None:
        place = f"set {HOME} to the folder that holds {row.dataset}/"
        lacking.append(f"the files of {row.dataset}: give --root, or {place}")
    if not (choices.model or row.model):
        lacking.append(f"a model: give --model, {row.source}")
    if lacking:
        raise BadInput(f"{row.name} needs {'; and '.join(lacking)}.")


def _asked(row: Benchmark, choices: Choices, category: str) -> Dataset:
    """The queries and candidates as they are listed."""
    root = found_at(row.dataset, choices.root) if row.on_disk else None
    if root is None:
        whole = tangram(row.name.rsplit("-", 1)[1], look=row.part or "plain")
    else:
        whole = DATASETS[row.dataset](root, row.query, category or row.part or None)
    return _first(whole, choices.queries)


def _readable(row: Benchmark, choices: Choices, asked: Dataset) -> tuple[Dataset, list[str]]:
    """What of it can be read, and a sentence on each thing that cannot."""
    if not row.on_disk:
        return asked, []
    found, problems = usable(asked, choices.strict)
    if not len(found):
        raise BadFile(f"{row.name}: none of {len(asked)} queries can be read. {problems[0]}")
    return found, problems


def _first(dataset: Dataset, queries: int | None) -> Dataset:
    return dataset if queries is None else dataset.asking(range(len(dataset))[:queries])


def _settings(
    row: Benchmark, choices: Choices, model: Mapping[str, Encoder], parts: Sequence[Part]
) -> dict[str, Any]:
    folder = choices.folder and str(choices.folder.resolve())
    noise = choices.noise and str(choices.noise.resolve()) if row.query == "audio" else None
    judge = _matcher(row, choices) if choices.matcher else None
    return {
        "queries": sum(len(part.dataset) for part in parts),
        "candidates": sum(len(part.gallery) for part in parts),
        "content": [part.content for part in parts],
        "asked": [content(part.dataset.queries) for part in parts],
        "model_fingerprint": model[row.query].fingerprint(),
        "gallery_fingerprint": model[row.gallery].fingerprint(),
        "preprocessing": _preprocessing(row, choices),
        "batch": row.batch,
        "as_published": row.as_published,
        "from_folder": folder,
        "translator": list(choices.translator),
        "noise": noise,
        "rerank": judge and judge.rerank,
        "matcher_fingerprint": judge and judge.fingerprint(),
    }


def embedded(encoder: Encoder, items: Sequence[Any], kept: Path) -> tuple[Gallery, str]:
    """The gallery of these items, from `kept` if it is there already, and a hash of them."""
    hashed = content(items)
    path = kept / f"{encoder.fingerprint()[:16]}-{hashed}.safetensors"
    try:
        return Gallery.load(path), hashed
    except BadFile:  # not there, or damaged: it is made again
        gallery = Gallery.build(encoder, items, batch_size=GALLERY_BATCH)
        gallery.save(path)
        return gallery.to("cpu"), hashed


def content(items: Sequence[Any]) -> str:
    """A short hash of what the items hold; of files of their own, of the bytes on disk."""
    digest = blake2b(digest_size=8)
    for piece in track(_pieces(items), "looking at the items"):
        digest.update(len(piece).to_bytes(8, "big"))
        digest.update(piece)
    return digest.hexdigest()


def _pieces(items: Any) -> Iterator[bytes]:
    if isinstance(items, LazyItems) and _told_by_files(items):
        for source in items.sources:
            yield from (file.read_bytes() for file in source.files)
            if isinstance(source, Composed):
                yield source.text.encode()
    elif isinstance(items, str):
        yield items.encode()
    elif isinstance(items, list | tuple | LazyItems):
        for item in items:
            yield from _pieces(item)
    else:
        values = np.asarray(getattr(items, "samples", items))
        yield f"{values.shape}{values.dtype}{getattr(items, 'rate', '')}".encode()
        yield values.tobytes()


def _told_by_files(items: LazyItems) -> bool:
    """Whether files and words tell what an item holds: not so in Fashion-Gen's one file."""
    wordless = [source.files for source in items.sources if not isinstance(source, Composed)]
    return len(set(wordless)) == len(wordless)
