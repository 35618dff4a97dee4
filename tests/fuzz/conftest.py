"""Writes how many inputs each fuzz test tried, for tools/fuzz.py to add up."""

import json
import os
from pathlib import Path


def pytest_sessionfinish() -> None:
    from fuzzing import TRIED

    if TRIED and "FUZZ_COUNTS" in os.environ:
        path = Path(os.environ["FUZZ_COUNTS"]) / f"{os.getpid()}.json"
        path.write_text(json.dumps(TRIED))
