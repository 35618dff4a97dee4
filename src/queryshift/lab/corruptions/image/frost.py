"""Frost: drawn ice on a window pane, or photographs of frost, laid over an image."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from numpy.random import PCG64, Generator

from queryshift.errors import BadInput
from queryshift.media.images import read_image

from ..corruption import at
from .pixels import Floats, Pixels, apply, to_bytes
from .weather import plasma

_TINT = (0.86, 1.02, 1.09)  # bluish, as photographs of frost are
_SHADES = 12


class Pane(NamedTuple):
    """How one pane looks: size, grey levels, Laplacian energy and size of its crystals."""

    height: int
    width: int
    mean: float
    spread: float
    energy: float
    density: float  # crystals per 1,000 pixels
    length: float


PANES = (  # sized and lit like the photographs of ImageNet-C, so that they grow alike
    Pane(600, 900, 128, 18, 830, 1.3, 60),
    Pane(315, 560, 207, 22, 945, 2.2, 90),
    Pane(315, 560, 207, 22, 945, 4.4, 45),
    Pane(350, 527, 150, 28, 2500, 5.6, 30),
    Pane(495, 660, 122, 43, 4300, 2.8, 60),
    Pane(323, 485, 90, 40, 3150, 0.9, 140),
)


@cache
def pane(index: int) -> Pixels:
    """Texture `index` of `PANES`, the same on every call and in every process."""
    look = PANES[index]
    rng = Generator(PCG64(index))
    crystals = _crystals(look, rng)
    crystals *= np.sqrt(look.energy / np.mean(cv2.Laplacian(crystals, cv2.CV_32F) ** 2))
    clouds = plasma(1024, 2.0, rng)[: look.height, : look.width]
    left = max(look.spread**2 - crystals.var(), 0) ** 0.5
    grey = look.mean + crystals - crystals.mean() + left * (clouds - clouds.mean()) / clouds.std()
    return to_bytes(grey[..., None] * np.array(_TINT, np.float32))


def _crystals(look: Pane, rng: Generator) -> Floats:
    """Feathers of ice: stems with side branches, in a few shades, over one another."""
    segments = _feathers(look, rng)
    shades = rng.integers(_SHADES, size=len(segments))
    canvas = np.zeros((look.height, look.width), np.uint8)
    for shade in range(_SHADES):
        lines = np.round(16 * segments[shades == shade].reshape(-1, 2, 2)).astype(np.int32)
        colour = 255 * (shade + 1) // _SHADES
        cv2.polylines(canvas, list(lines), False, colour, 1, cv2.LINE_AA, shift=4)
    return canvas.astype(np.float32)


def _feathers(look: Pane, rng: Generator) -> npt.NDArray[np.float64]:
    """(crystals, lines, 2 ends, x and y): a stem and its branches at 60 degrees to either side."""
    count = round(look.density * look.height * look.width / 1000)
    root = rng.uniform((0, 0), (look.width, look.height), (count, 1, 2))
    angle = rng.uniform(0, 2 * np.pi, (count, 1))
    length = look.length * rng.uniform(0.4, 1.6, (count, 1))
    along = np.repeat(np.linspace(0.05, 0.9, 9), 2)[None]
    start = root + _arrow(angle, length * along)
    side = np.resize([1, -1], along.shape) * np.pi / 3
    end = start + _arrow(angle + side, 0.45 * length * (1 - along))
    stem = np.stack([root, root + _arrow(angle, length)], axis=2)
    return np.concatenate([stem, np.stack([start, end], axis=2)], axis=1)


def _arrow(
    angle: npt.NDArray[np.float64], length: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    return np.stack([length * np.cos(angle), length * np.sin(angle)], axis=-1)


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
    """The drawn textures' numbers, or the images in a folder."""
    return tuple(range(len(PANES))) if folder is None else _images(Path(folder))


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
def _images(folder: Path) -> tuple[int | Path, ...]:
    found = sorted(path for path in folder.glob("*") if path.suffix.lower() in _SUFFIXES)
    if not found:
        raise BadInput(
            f"no frost textures in {folder}: expected a folder with {', '.join(_SUFFIXES)} files."
        )
    return tuple(found)


frost = Frost()
