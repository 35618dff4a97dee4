"""The image corruptions beside stored measurements of the fork `imagecorruptions-imaug`."""

import json
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from pictures import DETERMINISTIC, measures, photos, sampled

from queryshift.lab.corruptions import NAMES, SEVERITIES, corrupt, find

REFERENCE = json.loads((Path(__file__).parents[2] / "data" / "image_reference.json").read_text())
PHOTOS = photos()
EVERY = [name for family in NAMES["image"].values() for name in family]
FIXED = (*DETERMINISTIC, "zoom_blur")
DRAWS = {"frost": 256} | dict.fromkeys(FIXED, 1)  # per picture; textures of frost vary most
CHANGE_TOLERANCE = dict.fromkeys(("fog", "frost", "snow"), 0.25)


def measured(name, severity):
    """Mean absolute change and Laplacian energy, over all pictures, at least 64 draws each."""
    corruption = find("image", name)
    found = [
        measures(corrupt(clean, corruption, severity, seed=draw, item_id=picture), clean)
        for picture, clean in PHOTOS.items()
        for draw in range(DRAWS.get(name, 64))
    ]
    return np.mean(found, axis=0)


@pytest.mark.parametrize("name", EVERY)
def test_changes_as_much_as_the_reference(name):
    for severity in SEVERITIES:
        change, energy = measured(name, severity)
        expected = REFERENCE[name][severity - 1]
        tolerance = CHANGE_TOLERANCE.get(name, 0.05)
        assert change == pytest.approx(expected["change"], rel=tolerance), severity
        assert energy == pytest.approx(expected["energy"], rel=0.10), severity


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_gives_the_same_pixels_as_the_reference(name):
    for severity in SEVERITIES:
        ours = [sampled(find("image", name)(clean, severity, None)) for clean in PHOTOS.values()]
        theirs = np.frombuffer(b64decode(REFERENCE[name][severity - 1]["values"]), np.uint8)
        difference = np.abs(np.concatenate(ours).astype(int) - theirs)
        assert difference.max() <= 1.5, severity
