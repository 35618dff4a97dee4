"""Processing: lost contrast, elastic distortion, coarse pixels, strong compression."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.random import Generator
from PIL import Image

from ..corruption import at
from .pixels import Floats, Pixels, on_images, to_bytes

QUALITIES = (25, 18, 15, 10, 7)
COARSENESS = (0.6, 0.5, 0.4, 0.3, 0.25)


@on_images
def contrast(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Every channel drawn towards its own mean."""
    slope = at(severity, (0.4, 0.3, 0.2, 0.1, 0.05))
    means = np.array(cv2.mean(image)[:3])
    table = to_bytes((np.arange(256.0)[:, None] - means) * slope + means)
    return cv2.LUT(image, table[None])


@on_images
def elastic(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """A rubber sheet whose wrinkles grow with the image, so that every size looks alike."""
    height, width = image.shape[:2]
    stretch = at(severity, (12.5, 16.25, 21.25, 25.0, 30.0)) * 0.005 * height
    return _displaced(image, stretch, (0.01 * width, 0.01 * height), rng)


@on_images
def elastic_pixels(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """ImageNet-C's own elastic distortion: a random affine map, then wrinkles, sizes in pixels."""
    strength, smoothness, jitter = at(
        severity,
        ((2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02)),
    )
    tilted = _tilted(image, 244 * jitter, rng)
    return _displaced(tilted, 244 * strength, (244 * smoothness, 244 * smoothness), rng)


@on_images
def pixelate(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Too few pixels: averaged down, enlarged again as blocks."""
    height, width = image.shape[:2]
    share = at(severity, COARSENESS)
    small = (max(int(width * share), 1), max(int(height * share), 1))
    coarse = Image.fromarray(image).resize(small, Image.Resampling.BOX)
    return np.array(coarse.resize((width, height), Image.Resampling.NEAREST))


@on_images
def jpeg(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Strong JPEG compression."""
    return jpeg_coded(image, at(severity, QUALITIES))


def jpeg_coded(image: Pixels, quality: int) -> Pixels:
    """An image after JPEG at `quality` (the same bytes as Pillow's, but faster)."""
    swapped = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    _, file = cv2.imencode(".jpg", swapped, (cv2.IMWRITE_JPEG_QUALITY, quality))
    decoded = np.asarray(cv2.imdecode(file, cv2.IMREAD_COLOR))
    return cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)


def _displaced(
    image: Pixels, stretch: float, sigmas: tuple[float, float], rng: Generator
) -> Pixels:
    """Every pixel from a little to the side, by two smooth fields of up to `stretch` pixels."""
    height, width = image.shape[:2]
    right, down = (stretch * _wrinkles((height, width), sigmas, rng) for _ in "xy")
    right += np.arange(width, dtype=np.float32)
    down += np.arange(height, dtype=np.float32)[:, None]
    return cv2.remap(image, right, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)


def _wrinkles(shape: tuple[int, int], sigmas: tuple[float, float], rng: Generator) -> Floats:
    field = 2 * rng.random(shape, dtype=np.float32) - 1
    sides = [2 * int(3 * sigma + 0.5) + 1 for sigma in sigmas]
    border = cv2.BORDER_REFLECT
    return cv2.GaussianBlur(field, sides, sigmas[0], sigmaY=sigmas[1], borderType=border)


def _tilted(image: Pixels, jitter: float, rng: Generator) -> Pixels:
    height, width = image.shape[:2]
    centre = np.array([width // 2, height // 2], np.float32)
    reach = max(min(height, width) // 3, 1)
    corners = centre + reach * np.array([[1, 1], [1, -1], [-1, -1]], np.float32)
    moved = corners + rng.uniform(-jitter, jitter, corners.shape).astype(np.float32)
    matrix = cv2.getAffineTransform(corners, moved)
    return cv2.warpAffine(image, matrix, (width, height), borderMode=cv2.BORDER_REFLECT_101)
