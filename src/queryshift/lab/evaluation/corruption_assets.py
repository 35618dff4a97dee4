"""What a user brings to corrupt queries as published, and what takes its place without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from queryshift.errors import BadFile
from queryshift.lab.corruptions import NAMES

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


def substitutes(row: Benchmark, shift: str, assets: CorruptionAssets) -> tuple[str, ...]:
    """How the queries of a row under a shift differ from the published ones, in a few words each.

    Nothing for rows whose published corruptions are not known, and for queries as they are.
    """
    if not row.corrupted:
        return ()
    names = [name for family in NAMES.get(row.query, {}).values() for name in family]
    told = _told(row, names if row.diverse else [shift], assets)
    return tuple(dict.fromkeys(told))


def _told(row: Benchmark, names: Sequence[str], assets: CorruptionAssets) -> Iterator[str]:
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
