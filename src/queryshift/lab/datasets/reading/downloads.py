"""Download datasets as zip files, each unpacked once, for benchmarks that say so."""

from __future__ import annotations

import shutil
import tempfile
import urllib.request
import zipfile
from pathlib import Path

from queryshift.errors import BadFile

from ..known_datasets import DATASETS, HOME

CACHE = Path("~/.cache/queryshift")
TIMEOUT = 60  # seconds without a byte


def downloaded(name: str, folder: Path | None = None) -> Path:
    """The folder that holds a dataset, filled from its publisher's archives where it is not yet.

    An archive that was unpacked whole leaves a mark; after a failure the next call goes on there.
    """
    home = folder or CACHE.expanduser() / name
    home.mkdir(parents=True, exist_ok=True)
    for address in DATASETS[name].archives:
        mark = home / f".{Path(address).name}.unpacked"
        if not mark.exists():
            _unpack(address, home)
            mark.touch()
    return home


def _unpack(address: str, home: Path) -> None:
    with tempfile.TemporaryFile(dir=home) as file:
        try:
            with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
                shutil.copyfileobj(answer, file)
            with zipfile.ZipFile(file) as archive:
                archive.extractall(home)
        except (OSError, zipfile.BadZipFile) as error:
            raise BadFile(
                f"{address} cannot be had ({error}): unpack it by hand and give its folder as "
                f"--root, or set {HOME}."
            ) from error
