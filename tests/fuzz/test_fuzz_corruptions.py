"""Corruptions of any item at any severity: refused in words, or an item of the same kind."""

import numpy as np
import pytest
from fuzzing import attempt, fuzzed, refused
from hostile_values import ANYTHING, TEXTS, mostly
from hypothesis import strategies as st

from queryshift.lab import corruptions

FILLINGS = st.binary(min_size=32, max_size=32)


def picture(height: int, width: int, filling: bytes) -> np.ndarray:
    return np.resize(np.frombuffer(filling, np.uint8), (height, width, 3))


def sound(length: int, filling: bytes) -> np.ndarray:
    return np.resize(np.frombuffer(filling, np.int8), length).astype(np.float32) / 128


SMALL = st.builds(picture, st.integers(1, 20), st.integers(1, 20), FILLINGS)
SOUNDS = st.one_of(
    st.builds(sound, st.integers(1, 400), FILLINGS),
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=8).map(np.float32),
)
ITEMS = {
    "image": SMALL,
    "text": st.text("abc de,.", max_size=30) | TEXTS,
    "video": st.lists(SMALL, min_size=1, max_size=2),
    "audio": SOUNDS,
}


@pytest.mark.parametrize("modality", corruptions.MODALITIES)
@fuzzed(data=st.data(), severity=mostly(st.integers(1, 5), ANYTHING), seed=st.integers(0, 3))
def test_any_item(modality, data, severity, seed):
    families = corruptions.NAMES[modality].values()
    name = data.draw(st.sampled_from([one for names in families for one in names]))
    if name == "backtranslation":  # needs models that are no part of the package
        return
    item = data.draw(mostly(ITEMS[modality], ANYTHING))
    made = corruptions.find(modality, name)
    found = attempt(corruptions.corrupt, item, made, severity, seed=seed, item_id=data.draw(TEXTS))
    if not refused(found) and isinstance(item, np.ndarray | str):
        assert type(found) is type(item)
        if isinstance(item, np.ndarray):
            assert found.shape == item.shape and found.dtype == item.dtype


@fuzzed(modality=TEXTS | st.sampled_from(corruptions.MODALITIES), name=TEXTS | ANYTHING)
def test_any_name(modality, name):
    attempt(corruptions.find, modality, name)
    attempt(corruptions.combination, modality, name)
    attempt(corruptions.families, name)
