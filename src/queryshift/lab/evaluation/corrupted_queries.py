"""The queries of a benchmark under one of its shifts, opened and corrupted when they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile, BadInput
from queryshift.lab import corruptions
from queryshift.lab.corruptions import COMBINATIONS, NAMES, Corruption, find, one_of, segments
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.tangram import COMPOSED

from .benchmarks import Benchmark

STYLES = ("formal", "casual", "passive", "active")
RANKED_STYLES = ("formal", "casual")  # whose candidates the published scripts rank by adequacy
FILTERED = (*NAMES["text"]["word"], *STYLES)  # redrawn until they are similar, as published


@dataclass(frozen=True, kw_only=True)
class CorruptionAssets:
    """Models, recordings and photographs that the published corruptions were made with."""

    translator: tuple[str, ...] = ()  # two models, for back-translation
    noise: Path | None = None  # recordings that audio is corrupted with, as READ published it
    textures: Path | None = None  # photographs of frost
    styles: Path | None = None  # a folder with a model each: formal/, casual/, ..., adequacy/
    similarity: str = ""  # the sentence encoder of the published filter: a name or a directory

    def style_models(self, name: str) -> tuple[str, ...]:
        """The model that writes a style, and the one that ranks what it wrote."""
        folder = self.styles
        if folder is None:
            return ()
        wanted = (name, "adequacy") if name in RANKED_STYLES else (name,)
        for place in wanted:
            if not (folder / place).is_dir():
                raise BadFile(
                    f'no folder "{place}" in "{folder}": style models are the folders '
                    f"{', '.join(STYLES)} and adequacy, each as `save_pretrained` writes it."
                )
        return tuple(str(folder / place) for place in wanted)


NO_ASSETS = CorruptionAssets()


def substitutes(row: Benchmark, shift: str, assets: CorruptionAssets) -> tuple[str, ...]:
    """How the queries of a row under a shift differ from the published ones, in a few words each.

    Nothing for rows whose published corruptions are not known, and for queries as they are.
    """
    if not row.corrupted:
        return ()
    names = [name for family in NAMES.get(row.query, {}).values() for name in family]
    found = _differences(row, names if row.diverse else [shift], assets)
    return tuple(dict.fromkeys(found))


def _differences(row: Benchmark, names: Sequence[str], assets: CorruptionAssets) -> Iterator[str]:
    if row.dataset == "audioset" and row.query == "audio" and assets.noise is None:
        yield "synthetic noise (--noise)"
    if not row.as_published:
        return
    if row.query == "image" and "frost" in names and assets.textures is None:
        yield "drawn frost (--textures)"
    if row.query == "text" and set(names) & set(STYLES) and assets.styles is None:
        yield "styles by rules (--style-models)"
    if row.query == "text" and set(names) & set(FILTERED) and not assets.similarity:
        yield "no similarity filter (--similarity)"


@cache
def sentence_encoder(place: str) -> Callable[[str], Sequence[float]]:
    """The vector of a caption by a text encoder: a Hub name or a directory."""
    from queryshift.models import load

    encoder = load(place)["text"]
    return lambda caption: [float(number) for number in encoder.encode([caption])[0]]


KEPT_BYTES = 2**28  # of corrupted queries, so that several methods are asked the same ones cheaply
TRANSLATED = "backtranslation"
COCO_CLOUDS, FLICKR_CLOUDS = 1024, 512  # sides of the published fog maps


@dataclass(frozen=True)
class CorruptionFactory:
    """The corruptions of a row: in its published form, with a user's assets."""

    row: Benchmark
    assets: CorruptionAssets = NO_ASSETS

    def single(self, modality: str, name: str) -> Corruption:
        """The corruption of this name."""
        if name == TRANSLATED:
            from queryshift.lab.corruptions.text import sentence

            return sentence(TRANSLATED, backend="models", models=self.assets.translator)
        if modality == "audio" and self.assets.noise is not None:
            return _recorded(name, self.assets.noise)
        if self.row.as_published and modality == "image":
            from queryshift.lab.corruptions.image import preset

            clouds = FLICKR_CLOUDS if self.row.dataset.startswith("flickr") else COCO_CLOUDS
            return preset("mm_robustness", textures=self.assets.textures, clouds=clouds)[name]
        if self.row.as_published and modality == "text":
            return self._published_text(name)
        return find(modality, name)

    def drawn(self, query: str) -> Corruption:
        """One of all for each query; clips draw for each segment, pairs for each half."""
        if query == COMPOSED:
            return corruptions.both(self.drawn("image"), self.drawn("text"))
        families = {category: self._all(query, names) for category, names in NAMES[query].items()}
        if query not in COMBINATIONS:
            return one_of(*chain.from_iterable(families.values()))
        mixed = ([families[name] for name in shift.split("+")] for shift in COMBINATIONS[query])
        return one_of(*(segments(*(one_of(*family) for family in parts)) for parts in mixed))

    def _all(self, query: str, names: Sequence[str]) -> list[Corruption]:
        translated = self.assets.translator
        return [self.single(query, name) for name in names if translated or name != TRANSLATED]

    def _published_text(self, name: str) -> Corruption:
        """With the published style models and the filter on similarity, where they are there."""
        from queryshift.lab.corruptions.text import as_published, sentence, similar

        if name in STYLES and self.assets.styles is not None:
            models = self.assets.style_models(name)
            corruption = sentence(name, backend="models", models=models)
        elif name in NAMES["text"]["sentence"]:
            corruption = find("text", name)
        else:
            corruption = as_published(find("text", name))
        if name in FILTERED and self.assets.similarity:
            return similar(corruption, sentence_encoder(self.assets.similarity))
        return corruption


def _recorded(name: str, folder: Path) -> Corruption:
    """As loud as READ published it, from recordings where it is no white noise."""
    plain: Any = find("audio", name)
    noise = {"noise": folder} if hasattr(plain, "noise") else {}
    loud: Corruption = replace(plain, scale="read", **noise)
    return loud


def corruption_of(
    row: Benchmark, shift: str, assets: CorruptionAssets = NO_ASSETS
) -> Corruption | None:
    """The corruption of a row's queries under a shift; None if they are not corrupted.

    Without the two models of back-translation nothing that needs them is made, and queries with a
    shift each draw from the others.
    """
    if not row.corrupted:
        return None
    factory = CorruptionFactory(row, assets)
    if row.diverse:
        return factory.drawn(row.query)
    if shift not in row.shifts:
        raise BadInput(f'{row.name} has no shift "{shift}"; it has: {", ".join(row.shifts)}.')
    if needs_translator(row, shift) and not assets.translator:
        raise BadInput(
            f'the shift "{shift}" needs translation models: give two as translator, or as '
            "--translator THERE BACK on the command line."
        )
    if shift in COMBINATIONS.get(row.query, ()):
        return corruptions.combination(row.query, shift, factory.single, row.sentence)
    return factory.single(row.query, shift)


def needs_translator(row: Benchmark, shift: str) -> bool:
    """Whether a shift cannot be made without translation models."""
    return shift == TRANSLATED or (shift.endswith("+sentence") and row.sentence == TRANSLATED)


def translates(row: Benchmark, shift: str) -> bool:
    """Whether translation models, where there are any, have a part in a shift's queries."""
    drawn = row.diverse and row.corrupted and "text" in row.query
    return drawn or needs_translator(row, shift)


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
            query = self._corrupted(row)
            self._room -= weight(query)
            if self._room < 0:
                return query
            self._kept[row] = query
        return self._kept[row]

    def _corrupted(self, row: int) -> Any:
        item = self._dataset.queries[row]  # past the end: IndexError, which ends an iteration
        if self._corruption is None:
            return item
        how = (self._corruption, self._severity)
        name = self._dataset.query_ids[row]
        return corruptions.corrupt(item, *how, seed=self._seed, item_id=name)


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
