"""Writes how many inputs each fuzz test tried, for tools/fuzz.py to add up."""

import gc
import json
import os
from pathlib import Path


def pytest_collection_finish() -> None:
    """What was imported stays: without it in the rounds of the collector inputs go by faster."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish() -> None:
    """After each test, so that a round that is stopped counts as far as it came."""
    from fuzzing import TRIED

    if TRIED and "FUZZ_COUNTS" in os.environ:
        path = Path(os.environ["FUZZ_COUNTS"]) / f"{os.getpid()}.json"
        path.write_text(json.dumps(TRIED))
