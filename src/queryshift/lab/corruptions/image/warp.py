"""Moving pixels about: zooming into the centre and smearing along a line."""

from __future__ import annotations

from math import ceil, cos, exp, radians, sin
from typing import Any, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from .pixels import Floats

Array: TypeAlias = npt.NDArray[Any]


def zoomed(layer: Array, factor: float, shape: tuple[int, ...]) -> Array:
    """The middle of `layer`, magnified `factor` times and cut to `shape`.

    Like an order-1 spline zoom of the smallest crop that fills `shape`, trimmed evenly.
    """
    scale_y, start_y = _sampling(layer.shape[0], shape[0], factor)
    scale_x, start_x = _sampling(layer.shape[1], shape[1], factor)
    matrix = np.array([[scale_x, 0, start_x], [0, scale_y, start_y]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    size = (shape[1], shape[0])
    return cv2.warpAffine(layer, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)


def cropped_side(side: int, factor: float) -> int:
    """How many pixels of a side fill the whole side after magnifying them."""
    return ceil(side / factor)


def smeared(image: Array, radius: int, sigma: float, angle: float) -> Floats:
    """Motion blur: a one-sided Gaussian of 2 radius + 1 points along `angle` (degrees).

    A sum of shifted copies: three times faster than one filter with the same, mostly empty, kernel.
    """
    height, width = image.shape[:2]
    frame = 2 * radius
    borders = (frame, frame, frame, frame)
    framed = cv2.copyMakeBorder(image.astype(np.float32), *borders, cv2.BORDER_REPLICATE)
    total = np.zeros(image.shape, np.float32)
    for row, column, weight in _stroke(radius, sigma, radians(angle), (height, width)):
        top, left = frame + row, frame + column
        cv2.scaleAdd(framed[top : top + height, left : left + width], weight, total, dst=total)
    return total


def _sampling(have: int, want: int, factor: float) -> tuple[float, float]:
    """Step and start, in pixels of the layer, of the samples along one side."""
    crop = cropped_side(want, factor)
    enlarged = max(round(crop * factor), want)
    step = (crop - 1) / max(enlarged - 1, 1)
    return step, (have - crop) // 2 + (enlarged - want) // 2 * step


def _stroke(
    radius: int, sigma: float, angle: float, shape: tuple[int, int]
) -> list[tuple[int, int, float]]:
    """Row, column and weight of each point that stays within a picture of `shape`."""
    points = [
        (ceil(i * sin(angle) - 0.5), ceil(i * cos(angle) - 0.5), exp(-(i**2) / (2 * sigma**2)))
        for i in range(2 * radius + 1)
    ]
    inside = [point for point in points if abs(point[0]) < shape[0] and abs(point[1]) < shape[1]]
    total = sum(weight for _, _, weight in inside)
    return [(row, column, weight / total) for row, column, weight in inside]
