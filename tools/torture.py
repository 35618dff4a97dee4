"""`make torture`: kills, full disks, flipped bits, threads, forks and interrupts; a table of it.

Everything happens in a temporary folder and in processes of its own, which are killed by their
id. A full disk needs a small tmpfs, and the right to mount it: without, it is skipped, and told.

    python -m tools.torture --kills 200 --runs 200 --builds 200 --flips 10000
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tools import torture_commands as commands
from tools import torture_writers as writers

Held = tuple[int, str]  # how many went wrong, and what was seen
DEFAULTS = {"kills": 200, "runs": 200, "builds": 200, "flips": 10_000, "interrupts": 500}
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


def kills_of_commands(name: str, folder: Path, count: int) -> Held:
    """Kill a command again and again while it writes; in the end nothing is missing or twice."""
    makes = {"run": commands.benchmark_runs, "gallery build": commands.gallery_builds}
    return commands.kills(makes[name](folder), folder, count)


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
    for name, default in DEFAULTS.items():
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
            *(
                (f"kill -9 of queryshift {name}", count, kills_of_commands, (name,))
                for name, count in (("run", given.runs), ("gallery build", given.builds))
            ),
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
