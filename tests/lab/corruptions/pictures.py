"""Photo-like pictures made from a seed, so that references can be compared without photographs."""

from __future__ import annotations

import cv2
import numpy as np

SIZES = {"hills": (224, 224), "street": (144, 192), "fruit": (160, 112), "leaves": (128, 128)}
FORK_NAMES = {"elastic": "elastic_transform", "jpeg": "jpeg_compression"}
DETERMINISTIC = ("brightness", "contrast", "jpeg", "pixelate", "defocus_blur")


def photos():
    return {name: photo(name) for name in SIZES}


def photo(name):
    rng = np.random.Generator(np.random.PCG64(sorted(SIZES).index(name)))
    picture = PAINTERS[name](*SIZES[name], rng)
    grain = 3 * rng.standard_normal(picture.shape)
    return np.clip(np.round(picture + grain), 0, 255).astype(np.uint8)


def measures(corrupted, clean):
    """Mean absolute change, and Laplacian energy of the grey image."""
    change = cv2.absdiff(corrupted, clean).mean()
    grey = cv2.cvtColor(corrupted, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return float(change), float(np.square(cv2.Laplacian(grey, cv2.CV_32F)).mean())


def sampled(corrupted):
    """Every 211th value: enough to compare pixel by pixel, few enough to store."""
    return corrupted.ravel()[::211]


def _hills(height, width, rng):
    rows = np.linspace(0, 1, height)[:, None, None]
    picture = (1 - rows) * (120, 170, 230) + rows * (225, 225, 215) + np.zeros((1, width, 1))
    for depth in range(4):
        ridge = height * (0.35 + 0.15 * depth) + 14 * _cloud(8, width, 1.6, rng)[0]
        ground = np.array((70, 95, 60)) * (1.3 - 0.25 * depth)
        grass = ground + (6 + 6 * depth) * _cloud(height, width, 0.8, rng)[..., None]
        picture = np.where(np.arange(height)[:, None, None] > ridge[:, None], grass, picture)
    return picture


def _street(height, width, rng):
    picture = 190 + 12 * _cloud(height, width, 1.4, rng)[..., None] * np.ones(3)
    for left in range(0, width, 32):
        top, wall = rng.integers(10, height // 2), rng.uniform(60, 200, 3)
        bricks = wall + 8 * _cloud(height, width, 0.5, rng)[..., None]
        picture[top:, left : left + 30] = bricks[top:, left : left + 30]
        for row in range(top + 6, height - 20, 16):
            picture[row : row + 9, left + 5 : left + 12] = rng.uniform(10, 240, 3)
            picture[row : row + 9, left + 18 : left + 25] = rng.uniform(10, 240, 3)
    return picture


def _fruit(height, width, rng):
    picture = np.array((150, 110, 75)) + 14 * _cloud(height, width, 1.2, rng)[..., None]
    rows, columns = np.mgrid[:height, :width]
    for _ in range(9):
        middle, radius = rng.uniform((0, 0), (height, width)), rng.uniform(12, 30)
        across = np.hypot(rows - middle[0], columns - middle[1]) / radius
        shade = np.sqrt(np.clip(1 - across**2, 0, 1))[..., None]
        picture = np.where(shade > 0, rng.uniform(40, 250, 3) * (0.35 + 0.65 * shade), picture)
    return picture


def _leaves(height, width, rng):
    layers = np.stack([_cloud(height, width, 1.2, rng) for _ in range(3)], axis=-1)
    veins = 25 * np.sin(_cloud(height, width, 1.8, rng) * 9)[..., None]
    return np.array((85, 120, 60)) + layers * (22, 30, 18) + veins


def _cloud(height, width, slope, rng):
    """Noise whose spectrum falls with frequency, of mean 0 and deviation 1."""
    side = max(height, width)
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side))
    frequency[0, 0] = np.inf
    spectrum = np.fft.rfft2(rng.standard_normal((side, side))) / frequency**slope
    cloud = np.fft.irfft2(spectrum, (side, side))
    return ((cloud - cloud.mean()) / cloud.std())[:height, :width]


PAINTERS = {"hills": _hills, "street": _street, "fruit": _fruit, "leaves": _leaves}
