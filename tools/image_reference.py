"""Measure the PyPI fork `imagecorruptions-imaug`: makes tests/data/image_reference.json.

The fork needs an environment of its own (it brings numba, SciPy and scikit-image):

    python -m venv /tmp/fork && /tmp/fork/bin/pip install imagecorruptions-imaug==1.1.5
    /tmp/fork/bin/python tools/image_reference.py
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
from imagecorruptions import corrupt

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lab" / "corruptions"))

from pictures import DETERMINISTIC, FORK_NAMES, measures, photos, sampled  # noqa: E402

TARGET = ROOT / "tests" / "data" / "image_reference.json"
RANDOM = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
    *("glass_blur", "motion_blur", "snow", "frost", "fog", "elastic"),
)
FIXED = (*DETERMINISTIC, "zoom_blur")
DRAWS = {"frost": 512, "fog": 256}  # per picture, for the kinds that vary most from draw to draw


def main() -> None:
    """Measure every corruption at every severity and write the means."""
    np.random.seed(0)  # the fork draws from the global generator
    reference = {}
    for name in (*RANDOM, *FIXED):
        reference[name] = [cell(name, severity) for severity in range(1, 6)]
        print(name, [(row["change"], row["energy"]) for row in reference[name]])
    TARGET.write_text(json.dumps(reference, indent=1) + "\n")


def cell(name: str, severity: int) -> dict[str, Any]:
    """Means over all pictures and draws; sampled values too where nothing is random."""
    draws = 1 if name in FIXED else DRAWS.get(name, 64)
    found, values = [], []
    for clean in photos().values():
        for _ in range(draws):
            fork_name = FORK_NAMES.get(name, name)
            corrupted = corrupt(clean, severity=severity, corruption_name=fork_name)
            found.append(measures(corrupted, clean))
        values.append(sampled(corrupted))
    change, energy = np.mean(found, axis=0)
    row: dict[str, Any] = {"change": round(change, 4), "energy": round(energy, 3)}
    if name in DETERMINISTIC:
        row["values"] = b64encode(np.concatenate(values).tobytes()).decode()
    return row


if __name__ == "__main__":
    main()
