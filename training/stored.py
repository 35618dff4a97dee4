"""Where trained weights lie: the names of the files, and which belong together."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from queryshift.lab.tangram import model as tangram

BUNDLED = tangram.WEIGHTS
NEW = Path("runs") / "weights"  # where training leaves what it made
STORED = {
    "scenes": "tangram.safetensors",
    "matching": "tangram-matching.safetensors",
    "clips": "tangram-clips.safetensors",
    "edits": "tangram-edits.safetensors",
}
MADE_BY = {"scenes": ("scenes", "matching"), "clips": ("clips",), "edits": ("edits",)}
READERS = ("scenes", "edits")  # what their numbers mean depends on the tokenizer
TOKENIZER = "tokenizer.json"
NOT_TRAINED = (TOKENIZER, "recommended.json")


def put(file: Path, place: Path) -> None:
    """Copy a file whole or not at all, whoever else does so at the same time."""
    beside = place.with_name(f"{place.name}.{os.getpid()}")
    shutil.copyfile(file, beside)
    beside.replace(place)


def use(folder: Path) -> None:
    """Let this process take weights and tokenizer from a folder; what it lacks is copied there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NOT_TRAINED:
        if not (folder / name).exists():
            put(BUNDLED / name, folder / name)
    tangram.WEIGHTS = folder
    tangram.tokenizer.cache_clear()
