"""Images of shapes from signed distances: vectorised, anti-aliased, drawn without chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .styles import RGB, Style

SIDE = 64
Pixels = NDArray[np.uint8]
Field: TypeAlias = Any  # an array of floats; through ufuncs numpy's own types get lost

_AXIS = np.arange(SIDE, dtype=np.float32) + np.float32(0.5)
_FIFTH = np.float32(2 * np.pi / 5)


def _circle(x: Field, y: Field) -> Field:
    return np.sqrt(x * x + y * y) - 1


def _square(x: Field, y: Field) -> Field:
    return np.maximum(np.abs(x), np.abs(y)) - 0.86


def _triangle(x: Field, y: Field) -> Field:
    return np.maximum(np.abs(x) * 0.875 - y * 0.484 - 0.46, y - 0.8)


def _diamond(x: Field, y: Field) -> Field:
    return np.abs(x) * 0.82 + np.abs(y) * 0.572 - 0.58


def _hexagon(x: Field, y: Field) -> Field:
    return np.maximum(np.abs(x) * 0.866 + np.abs(y) * 0.5, np.abs(y)) - 0.88


def _star(x: Field, y: Field) -> Field:
    angle = np.arctan2(x, -y)
    folded = np.abs(angle - _FIFTH * np.round(angle / _FIFTH))
    radius = np.sqrt(x * x + y * y)
    return radius * (np.cos(folded) * 0.433 + np.sin(folded) * 0.901) - 0.455


def _cross(x: Field, y: Field) -> Field:
    far, near = np.maximum(np.abs(x), np.abs(y)), np.minimum(np.abs(x), np.abs(y))
    return np.maximum(far - 0.98, near - 0.32)


def _heart(x: Field, y: Field) -> Field:
    side = np.abs(x)
    lobe = np.sqrt((side - 0.48) ** 2 + (y + 0.4) ** 2) - 0.5
    wedge = np.maximum(side * 0.76 + y * 0.65 - 0.62, -y - 0.42)
    return np.minimum(lobe, wedge)


def _moon(x: Field, y: Field) -> Field:
    return np.maximum(_circle(x, y), 0.82 - np.sqrt((x - 0.52) ** 2 + y * y))


def _arrow(x: Field, y: Field) -> Field:
    head = np.maximum(np.abs(x) * 0.72 - y * 0.69 - 0.66, y - 0.08)
    stem = np.maximum(np.abs(x) - 0.27, np.maximum(y - 0.98, -y))
    return np.minimum(head, stem)


_SHAPES = (
    *(_circle, _square, _triangle, _diamond, _hexagon),
    *(_star, _cross, _heart, _moon, _arrow),
)
DISTANCES: Mapping[str, Callable[[Field, Field], Field]] = {
    shape.__name__.removeprefix("_"): shape for shape in _SHAPES
}


def blank(paper: RGB, style: Style) -> Field:
    """An empty canvas in the style's paper, as floats from 0 to 255."""
    canvas = np.empty((SIDE, SIDE, 3), np.float32)
    canvas[:] = paper
    if style.texture != "none":
        canvas *= 1 + style.contrast * texture(style.texture)[..., None]
    return canvas


def paint(
    canvas: Field, shape: str, centre: tuple[float, float], radius: float, look: tuple[RGB, str]
) -> None:
    """Lay one shape over the canvas; `look` is its ink and how it is filled."""
    ink, fill = look
    rows, columns = _box(centre[1], radius), _box(centre[0], radius)
    x = _AXIS[columns] - np.float32(centre[0])
    y = (_AXIS[rows] - np.float32(centre[1]))[:, None]
    scale = np.float32(1 / radius)
    distance = DISTANCES[shape](x * scale, y * scale) * np.float32(radius)
    cover = np.clip(0.5 - distance, 0, 1) * _pattern(fill, x, y, distance)
    part = canvas[rows, columns]
    part += cover[..., None] * (np.asarray(ink, np.float32) - part)


def trace(
    canvas: Field, shape: str, centre: tuple[float, float], radius: float, style: Style
) -> None:
    """Lay the style's dark, unsteady contour round a shape."""
    rows, columns = _box(centre[1], radius + 2), _box(centre[0], radius + 2)
    x = _AXIS[columns] - np.float32(centre[0])
    y = (_AXIS[rows] - np.float32(centre[1]))[:, None]
    x, y = x + style.wobble * np.sin(y * 0.9), y + style.wobble * np.sin(x * 1.1)
    distance = DISTANCES[shape](x / np.float32(radius), y / np.float32(radius)) * radius
    part = canvas[rows, columns]
    part *= 1 - 0.75 * np.clip(style.stroke / 2 + 0.5 - np.abs(distance), 0, 1)[..., None]


def finish(canvas: Field) -> Pixels:
    """The canvas as an 8-bit image."""
    image: Pixels = np.clip(canvas + 0.5, 0, 255).astype(np.uint8)
    return image


def _box(centre: float, radius: float) -> slice:
    reach = radius + 1
    return slice(max(int(centre - reach), 0), min(int(centre + reach) + 1, SIDE))


def _pattern(fill: str, x: Field, y: Field, distance: Field) -> Field:
    if fill == "outlined":
        return np.clip(distance + 2.6, 0, 1)
    if fill == "striped":
        return np.clip(0.5 + 2.2 * np.sin((x + y) * np.float32(1.25)), 0.2, 1)
    if fill == "dotted":
        return np.clip(
            0.1 + 2.4 * np.sin(x * np.float32(1.4)) * np.sin(y * np.float32(1.4)), 0.2, 1
        )
    return 1.0


@cache
def texture(name: str) -> Field:
    """A field from -1 to 1 that a style's paper is multiplied by."""
    x, y = _AXIS[None, :], _AXIS[:, None]
    if name == "stripes":
        return np.sign(np.sin(x * 0.8)) + 0 * y
    if name == "checks":
        return np.sign(np.sin(x * 0.4)) * np.sign(np.sin(y * 0.4))
    if name == "weave":
        return np.sin(x * 1.9) * np.cos(y * 1.9) + 0.3 * np.sin(x * 0.3 + y * 0.2)
    if name == "shine":
        return (x - y) / SIDE + 0.4 * np.sin((x + y) * 0.12)
    return np.random.RandomState(7).uniform(-1, 1, (SIDE, SIDE)).astype(np.float32)
