"""Queries that mean nothing, to try at the start whether a method can learn at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

SIDE = 64  # pixels of a picture
SAMPLES = 16_000  # of a sound: one second


def probes(modality: str, count: int, dimension: int) -> list[Any]:
    """Queries of noise, as an encoder takes them.

    Args:
        modality: what one query is: "image", "text", "image+text", "vector".
        count: how many.
        dimension: of a vector.
    """
    draw = np.random.default_rng(0)
    kinds: dict[str, Callable[[], Any]] = {
        "image": lambda: _picture(draw),
        "audio": lambda: draw.uniform(-0.1, 0.1, SAMPLES),
        "vector": lambda: draw.normal(size=dimension),
    }

    def text() -> str:
        return f"query {draw.integers(10**6)}"

    def one() -> Any:
        parts = [kinds.get(kind, text)() for kind in modality.split("+")]
        return parts[0] if len(parts) == 1 else tuple(parts)

    return [one() for _ in range(count)]


def _picture(draw: np.random.Generator) -> Image.Image:
    return Image.fromarray(draw.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8))
