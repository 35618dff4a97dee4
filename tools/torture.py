"""`make torture`: kills, full disks, flipped bits, threads, forks and interrupts; a table of it.

Everything happens in a temporary folder and in processes of its own, which are killed by their
id. A full disk needs a small tmpfs, and the right to mount it: without, it is skipped, and told.

    python -m tools.torture --kills 200 --runs 40 --flips 10000
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tools import torture_writers as writers

Held = tuple[int, str]  # how many went wrong, and what was seen
CODE = [sys.executable, "-m", "tools.torture_writers"]


def killed_while_saving(kind: str, path: Path, seconds: float) -> None:
    """Start a process that saves again and again, and kill it by its id after so many seconds."""
    child = os.fork()
    if child == 0:
        try:
            writers.save_for_ever(kind, path)
        finally:
            os._exit(1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise RuntimeError(f"the writer of {path} ended by itself: {status}")


def kills_of_saves(kind: str, folder: Path, count: int) -> Held:
    """Kill a process that saves again and again; the file must always be one whole save."""
    path, draw, wrong, caught, before = folder / kind, random.Random(0), 0, 0, set[str]()
    writers.contents(kind)[0].save(path)
    for _ in range(count):
        killed_while_saving(kind, path, draw.uniform(0.01, 0.1))
        left = {one.name for one in folder.iterdir() if one.name.startswith(".")}
        caught, before = caught + bool(left - before), left
        wrong += (not writers.whole(kind, path)) + (len(left) > 1)
    return wrong, f"{caught} in the middle of a save; at most one temporary was left"


def kills_of_runs(folder: Path, count: int) -> Held:
    """Kill `queryshift run` again and again; in the end every cell is there, each once."""
    command = [sys.executable, "-m", "queryshift", "run", "tangram-o-image", "-m", "frozen"]
    command += ["--queries", "8", "--seeds", "3", "--out", str(folder / "runs"), "--shift", "fog"]
    return _killed_until_done(command, count, lambda: writers.cells_missing(folder / "runs", 3))


def kills_of_builds(folder: Path, count: int) -> Held:
    """Kill `queryshift gallery build` again and again; in the end no candidate is missing."""
    items, target = folder / "items.csv", folder / "built.safetensors"
    lines = (f"i{number},a red square {number}" for number in range(400))
    items.write_text("\n".join(("id,text", *lines)))
    command = [sys.executable, "-m", "queryshift", "gallery", "build", "--model", "tangram"]
    command += ["--items", str(items), "--to", str(target), "--shard", "8", "--batch", "8"]
    return _killed_until_done(command, count, lambda: writers.candidates_missing(target, 400))


def _killed_until_done(command: list[str], count: int, missing: Callable[[], int]) -> Held:
    draw, ended = random.Random(1), 0
    for _ in range(count):
        ran = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            ran.wait(draw.uniform(1, 12))
            ended += 1
        except subprocess.TimeoutExpired:
            ran.kill()
            ran.wait()
    failed = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    return missing() + bool(failed), f"{ended} came to their end before the kill"


def full_disk(folder: Path) -> Held | None:
    """Save into a tmpfs of one megabyte until it is full; what was there stays whole."""
    place = folder / "small"
    place.mkdir()
    asked = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if subprocess.run(asked, stderr=subprocess.DEVNULL).returncode:
        return None
    try:
        return writers.fill(place), "a sentence each, the old files whole"
    finally:
        subprocess.run(["umount", str(place)], check=True)


def interrupts(folder: Path, count: int) -> Held:
    """Ctrl-C inside `answer`, again and again: no torn state."""
    ran = subprocess.run([*CODE, "interrupts", str(count)], capture_output=True, text=True)
    hit, wrong = map(int, ran.stdout.split()) if ran.returncode == 0 else (0, 1)
    return wrong, f"{hit} of them inside a batch"


def checked(name: str, folder: Path) -> Held:
    """One of the checks that run in a process of their own."""
    return abs(subprocess.run([*CODE, name, str(folder)]).returncode), ""


def flips(kind: str, folder: Path, count: int) -> Held:
    """Flip one bit of a file, again and again; none may load with other content."""
    return writers.flipped_otherwise(kind, folder / f"{kind}.flipped", count), "half in the header"


def main() -> int:
    """Try everything, print the table; the exit code is 1 where something did not hold."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("kills", 200), ("runs", 40), ("flips", 10_000), ("interrupts", 500)):
        asked.add_argument(f"--{name}", type=int, default=default)
    given, failed = asked.parse_args(), 0
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with TemporaryDirectory(prefix="torture-") as name:
        folder = Path(name)
        tried = [
            *(
                (f"kill -9 while a {kind} is saved", given.kills, kills_of_saves, (kind,))
                for kind in ("session", "gallery")
            ),
            ("kill -9 of queryshift run", given.runs, kills_of_runs, ()),
            ("kill -9 of gallery build", given.runs, kills_of_builds, ()),
            *(
                (f"{kind} files with a flipped bit", given.flips, flips, (kind,))
                for kind in ("gallery", "session")
            ),
            ("interrupts of answer", given.interrupts, interrupts, ()),
        ]
        for label, count, function, more in tried:
            if count:
                place = folder / label.replace(" ", "-")
                place.mkdir()
                failed += _tell(label, count, function(*more, place, count))
        failed += _tell("saves onto a full disk", 1, full_disk(folder))
        for name in ("threads", "forks", "cut"):
            failed += _tell(writers.CHECKS[name], 1, checked(name, folder))
    return int(failed > 0)


def _tell(label: str, count: int, held: Held | None) -> int:
    """One row of the table."""
    if held is None:
        print(f"| {label} | skipped: no tmpfs can be mounted here | |", flush=True)
        return 0
    wrong, seen = held
    verdict = f"{wrong} WRONG" if wrong else "held"
    print(f"| {label} | {count:,} | {verdict} | {seen} |", flush=True)
    return wrong


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
