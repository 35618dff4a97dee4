"""Kills of `queryshift run` and `queryshift gallery build`, each in the middle of its work."""

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools import torture_writers as writers

COMMAND = [sys.executable, "-m", "queryshift"]
CELLS, CANDIDATES = 12, 400


@dataclass(frozen=True)
class Work:
    """A command, the folder that it writes into, and what is missing there when it has ended."""

    command: Callable[[Path], list[str]]
    missing: Callable[[Path], int]
    given: Path  # what a new folder starts with

    def start(self, folder: Path) -> subprocess.Popen[bytes]:
        """The command, at work."""
        told = subprocess.DEVNULL
        return subprocess.Popen(self.command(folder), stdout=told, stderr=told)

    def whole(self, folder: Path) -> tuple[float, int]:
        """Seconds from the first write to the end, and what is missing then."""
        running = self.start(folder)
        begins = _first_write(running, folder)
        failed = running.wait()
        return time.monotonic() - begins, self.missing(folder) + bool(failed)


def benchmark_runs(folder: Path) -> Work:
    """`queryshift run`, a few small cells; the gallery is embedded before anything is killed."""

    def command(place: Path) -> list[str]:
        chosen = ["tangram-o-image", "-m", "tent", "--shift", "fog"]
        size = ["--queries", "16", "--seeds", str(CELLS), "--jobs", "1"]
        return [*COMMAND, "run", *chosen, *size, "--out", str(place)]

    given = folder / "given"
    subprocess.run([*command(given), "--seeds", "1"], stderr=subprocess.DEVNULL, check=True)
    for lines in given.glob("*.jsonl"):
        lines.unlink()
    return Work(command, lambda place: writers.cells_missing(place, CELLS), given)


def gallery_builds(folder: Path) -> Work:
    """`queryshift gallery build`, in many small parts."""
    given = folder / "given"
    given.mkdir()
    rows = (f"i{number},a red square {number}" for number in range(CANDIDATES))
    (given / "items.csv").write_text("\n".join(("id,text", *rows)))

    def command(place: Path) -> list[str]:
        source = ["--model", "tangram", "--items", str(place / "items.csv")]
        parts = ["--shard", "8", "--batch", "8"]
        return [*COMMAND, "gallery", "build", *source, *parts, "--to", str(_built(place))]

    return Work(command, lambda place: writers.candidates_missing(_built(place), CANDIDATES), given)


def kills(work: Work, folder: Path, count: int) -> tuple[int, str]:
    """Kill a command so often while it writes, each time going on from what the last one left.

    Work that came to its end is looked at, and begun anew in another folder.

    Args:
        work: The command.
        folder: Where the folders of its work are made.
        count: How many kills.

    Returns:
        How much was missing or there twice at an end, and what was seen.
    """
    draw, wrong, ends, killed = random.Random(count), 0, 0, 0
    place = _begun(work, folder / "0")
    lasts, missing = work.whole(place)
    place, wrong = _begun(work, folder / "1"), wrong + missing
    while killed < count:
        running = work.start(place)
        _first_write(running, place)
        try:
            running.wait(draw.uniform(0, lasts))
            ends, wrong = ends + 1, wrong + work.missing(place)
            place = _begun(work, folder / str(1 + ends))
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            killed += 1
    wrong += work.whole(place)[1]
    return wrong, f"all while it wrote; {ends + 1} times the work then came to its end, each whole"


def _begun(work: Work, place: Path) -> Path:
    """A new folder for the work."""
    shutil.copytree(work.given, place)
    return place


def _built(place: Path) -> Path:
    return place / "built.safetensors"


def _first_write(running: subprocess.Popen[bytes], place: Path) -> float:
    """When the folder first changes; at the latest when the command ends."""
    before = _sizes(place)
    while running.poll() is None and _sizes(place) == before:
        time.sleep(0.002)
    return time.monotonic()


def _sizes(place: Path) -> dict[str, int]:
    """Every file but locks, with its size."""
    found = {}
    for file in place.rglob("*"):
        try:
            found[str(file)] = file.stat().st_size if file.name != ".lock" else 0
        except FileNotFoundError:  # just renamed
            found[str(file)] = -1
    return found
