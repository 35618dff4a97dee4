"""Three items of each modality, which tests of models share."""

import numpy as np

SENTENCES = ("a red square", "two small stars on a beach", "an arrow")


def pictures(count: int = 3) -> list[np.ndarray]:
    draw = np.random.default_rng(5)
    return [draw.integers(0, 255, (40, 50, 3), dtype=np.uint8) for _ in range(count)]


def sounds(count: int = 3) -> list[np.ndarray]:
    draw = np.random.default_rng(6)
    return [draw.uniform(-0.5, 0.5, 8000).astype(np.float32) for _ in range(count)]
