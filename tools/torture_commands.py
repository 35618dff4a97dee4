"""Kills of `queryshift run` and `queryshift gallery build`, each in the middle of its work.

Commands run in forked processes, which have everything imported: a kill costs what the command
does, not its start.
"""

import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path

from queryshift import load
from queryshift.cli import main
from tools import torture_writers as writers

CELLS, CANDIDATES = 12, 400
FORKED = get_context("fork")


@dataclass(frozen=True)
class Work:
    """A command, the folder that it writes into, and what is missing there when it has ended."""

    command: Callable[[Path], list[str]]
    missing: Callable[[Path], int]
    given: Path  # what a new folder starts with

    def start(self, folder: Path) -> ForkProcess:
        """The command, at work."""
        return _started(self.command(folder))

    def whole(self, folder: Path) -> tuple[float, int]:
        """Seconds from the first write to the end, and what is missing then."""
        running = self.start(folder)
        begins = _first_write(running, folder)
        running.join()
        return time.monotonic() - begins, self.missing(folder) + bool(running.exitcode)


def benchmark_runs(folder: Path) -> Work:
    """`queryshift run`, a few small cells; the gallery is embedded before anything is killed."""

    def command(place: Path) -> list[str]:
        chosen = ["tangram-o-image", "-m", "tent", "--shift", "fog"]
        size = ["--queries", "16", "--seeds", str(CELLS), "--jobs", "1"]
        return ["run", *chosen, *size, "--out", str(place)]

    given = folder / "given"
    _started([*command(given), "--seeds", "1"]).join()
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
        return ["gallery", "build", *source, *parts, "--to", str(_built(place))]

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
        begins = _first_write(running, place)
        running.join(draw.uniform(0, lasts))
        if running.exitcode is None:
            running.kill()
            killed += 1
        else:
            lasts = min(lasts, time.monotonic() - begins)  # what was left of it: kill sooner
            ends, wrong = ends + 1, wrong + work.missing(place) + bool(running.exitcode)
            place = _begun(work, folder / str(1 + ends))
        running.join()
    wrong += work.whole(place)[1]
    return wrong, f"all while it wrote; {ends + 1} times the work then came to its end, each whole"


def _started(arguments: list[str]) -> ForkProcess:
    """A forked process that runs a command, silently."""
    load("tangram")  # what it imports is imported by now
    running = FORKED.Process(target=_silently, args=(arguments,))
    running.start()
    return running


def _silently(arguments: list[str]) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    sys.exit(main(arguments, standalone_mode=False))


def _begun(work: Work, place: Path) -> Path:
    """A new folder for the work."""
    shutil.copytree(work.given, place)
    return place


def _built(place: Path) -> Path:
    return place / "built.safetensors"


def _first_write(running: ForkProcess, place: Path) -> float:
    """When the folder first changes; at the latest when the command ends."""
    before = _sizes(place)
    while running.exitcode is None and _sizes(place) == before:
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
