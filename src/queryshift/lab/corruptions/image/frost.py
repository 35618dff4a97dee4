"""Frost: ice crystals in front of the lens, drawn or from a folder of photographs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.random import Generator

from queryshift.errors import BadInput
from queryshift.media.images import read_image

from ..corruption import at
from .ice import PANES, pane
from .pixels import Pixels, apply

_SUFFIXES = (".jpg", ".jpeg", ".png")
_MARGIN = 1.1  # a texture is always a little larger than the image, so that the crop can vary


@dataclass(frozen=True)
class Frost:
    """Ice crystals in front of the lens; `textures` names a folder of photographs of frost."""

    textures: str | Path | None = None
    __name__ = "frost"

    def __call__(self, item: Any, severity: int, rng: Generator, /) -> Any:
        """Add a random crop of a random texture."""
        return apply(self._frosted, item, severity, rng)

    def _frosted(self, image: Pixels, severity: int, rng: Generator) -> Pixels:
        kept, added = at(severity, ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)))
        return cv2.addWeighted(image, kept, self._ice(image.shape, rng), added, 0)

    def _ice(self, shape: tuple[int, ...], rng: Generator) -> Pixels:
        names = texture_names(self.textures)
        name = names[int(rng.integers(len(names)))]
        height, width = texture(name).shape[:2]
        enlarged = sized(name, _MARGIN * max(1, shape[0] / height, shape[1] / width))
        top = int(rng.integers(enlarged.shape[0] - shape[0]))
        left = int(rng.integers(enlarged.shape[1] - shape[1]))
        return enlarged[top : top + shape[0], left : left + shape[1]]


def texture_names(folder: str | Path | None) -> tuple[int | Path, ...]:
    """The drawn textures' numbers, or the pictures in a folder."""
    return tuple(range(len(PANES))) if folder is None else _pictures(Path(folder))


@cache
def texture(name: int | Path) -> Pixels:
    """One texture, drawn or read once per process."""
    if isinstance(name, int):
        return pane(name)
    return np.array(read_image(name).convert("RGB"))


@lru_cache(maxsize=12)
def sized(name: int | Path, scale: float) -> Pixels:
    """One texture enlarged by `scale`."""
    original = texture(name)
    size = (ceil(original.shape[1] * scale), ceil(original.shape[0] * scale))
    return cv2.resize(original, size, interpolation=cv2.INTER_CUBIC)


@cache
def _pictures(folder: Path) -> tuple[int | Path, ...]:
    found = sorted(path for path in folder.glob("*") if path.suffix.lower() in _SUFFIXES)
    if not found:
        raise BadInput(
            f"no frost textures in {folder}: expected a folder with {', '.join(_SUFFIXES)} files."
        )
    return tuple(found)


frost = Frost()
