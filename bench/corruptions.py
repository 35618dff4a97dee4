"""CPU time of the 16 image corruptions beside the PyPI fork `imagecorruptions-imaug`.

Both run in one process, turn by turn, so that the ratios hold on a busy machine. The fork needs an
environment of its own (it brings numba, SciPy and scikit-image), which also runs our corruptions:

    python -m venv /tmp/fork && /tmp/fork/bin/pip install imagecorruptions-imaug==1.1.5
    PYTHONPATH=src /tmp/fork/bin/python bench/corruptions.py [--side 224] [--rounds 15]

CPU milliseconds per image, mean over severities 1 to 5.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time

import cv2
import numpy as np
from rows import Rows, parser

from queryshift.lab.corruptions import NAMES, SEVERITIES, corrupt, find

try:
    from imagecorruptions import corrupt as fork_corrupt
except ImportError:
    sys.exit(__doc__)

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lab" / "corruptions"))

from pictures import FORK_NAMES, photo

COLUMNS = {"corruption": "", "queryshift": ".2f", "fork": ".2f", "fork / ours": ".1f"}


def main() -> None:
    asking = parser(__doc__, rounds=15)
    asking.add_argument("--side", type=int, default=224)
    asked = asking.parse_args()
    cv2.setNumThreads(1)
    picture = cv2.resize(photo("hills"), (asked.side, asked.side), interpolation=cv2.INTER_AREA)
    rows = Rows(asked, "none: the peer is the fork", COLUMNS)
    totals = np.zeros(2)
    for family in NAMES["image"].values():
        for name in family:
            turns = [both_times(name, severity, picture, asked.rounds) for severity in SEVERITIES]
            times = np.mean(turns, axis=0)
            totals += times
            rows.add(row(name, times))
    rows.add(row("all 16", totals))


def both_times(name: str, severity: int, picture: np.ndarray, rounds: int) -> tuple[float, float]:
    """The best of several rounds for each, in milliseconds, after one warm-up round."""
    corruption, fork_name = find("image", name), FORK_NAMES.get(name, name)
    ours, theirs = [], []
    for turn in range(rounds + 1):
        start = process_time()
        corrupt(picture, corruption, severity, seed=0, item_id=turn)
        middle = process_time()
        fork_corrupt(picture, severity=severity, corruption_name=fork_name)
        ours.append(middle - start)
        theirs.append(process_time() - middle)
    return 1000 * min(ours[1:]), 1000 * min(theirs[1:])


def row(name: str, times: np.ndarray) -> dict[str, object]:
    ours, theirs = map(float, times)
    return {"corruption": name, "queryshift": ours, "fork": theirs, "fork / ours": theirs / ours}


if __name__ == "__main__":
    main()
