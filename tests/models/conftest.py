"""Tiny checkpoints, written once a session and only ever loaded offline."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before Hugging Face's packages read it

import numpy as np
import pytest

SENTENCES = ("a red square", "two small stars on a beach", "an arrow")


def pictures(count: int = 3) -> list[np.ndarray]:
    draw = np.random.default_rng(5)
    return [draw.integers(0, 255, (40, 50, 3), dtype=np.uint8) for _ in range(count)]


def sounds(count: int = 3) -> list[np.ndarray]:
    draw = np.random.default_rng(6)
    return [draw.uniform(-0.5, 0.5, 8000).astype(np.float32) for _ in range(count)]


@pytest.fixture(scope="session")
def items() -> dict[str, list]:
    """Three items of each modality."""
    return {"image": pictures(), "text": list(SENTENCES), "audio": sounds()}


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """The directory of a tiny checkpoint, by the class it was saved from."""
    from tiny_checkpoints import CHECKPOINTS

    written = {}

    def folder(architecture: str):
        if architecture not in written:
            home = tmp_path_factory.mktemp(architecture)
            written[architecture] = CHECKPOINTS[architecture](home)
        return written[architecture]

    return folder
