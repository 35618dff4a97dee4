"""Compare what two versions of this repository answer and learn, stream by stream.

    python tools/compare_streams.py OLD NEW [--tolerance 0] [--streams PATTERN ...]

OLD and NEW are git revisions of this repository, or folders with a `src`. Every method is run on
small streams of tangram, alone and with wrappers, a matcher, exclusions, guards and so on, by
`stream_worker.py` in a process of its own for each version. A stream is the same if the ids of its
answers are equal and neither scores nor parameters differ by more than the tolerance after any
batch. The exit code is 1 if a stream differs or fails. --streams takes patterns of names, such as
"image/rest*" and "*/shadow".
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

REPOSITORY = Path(__file__).parents[1]
WORKER = Path(__file__).with_name("stream_worker.py")


@dataclass(frozen=True)
class Difference:
    """How one stream of two versions differs."""

    answers: bool
    scores: float
    params: float
    error: str = ""

    def within(self, tolerance: float) -> bool:
        """Whether the streams count as the same."""
        return not self.error and self.answers and max(self.scores, self.params) <= tolerance


def source_of(version: str, folder: Path) -> Path:
    """The `src` of a version: a folder's own, or a revision's, unpacked into `folder`."""
    if (Path(version) / "src").is_dir():
        return (Path(version) / "src").resolve()
    archive = subprocess.run(
        ["git", "-C", str(REPOSITORY), "archive", version, "src"], capture_output=True
    )
    if archive.returncode != 0:
        raise SystemExit(
            f'"{version}" is no folder with a src and no revision: {archive.stderr.decode()}'
        )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def streams_of(version: str, patterns: list[str]) -> dict[str, Any]:
    """What every stream of a version gave, from a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        source, output = source_of(version, Path(folder)), Path(folder) / "streams.pt"
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(WORKER), str(output), "--streams", *patterns]
        subprocess.run(command, check=True, env=environment, cwd=folder)
        stored = torch.load(output, weights_only=True)
        if Path(stored["home"]) != source / "queryshift":
            raise SystemExit(f"ran {stored['home']}, expected the package in {source}.")
        streams: dict[str, Any] = stored["streams"]
        return streams


def difference(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Difference:
    """How two records of a stream differ; infinitely where a parameter is in one of them only."""
    if old is None or new is None:
        return Difference(False, torch.inf, torch.inf, f"only in {'new' if old is None else 'old'}")
    errors = {
        f"{side}: {one['error']}"
        for side, one in zip(("old", "new"), (old, new), strict=True)
        if "error" in one
    }
    if errors:
        return Difference(False, torch.inf, torch.inf, "; ".join(sorted(errors)))
    return Difference(
        old["answers"] == new["answers"],
        farthest(old["scores"], new["scores"]),
        farthest(old["params"], new["params"]),
    )


def farthest(old: list[dict[str, Tensor]], new: list[dict[str, Tensor]]) -> float:
    """The largest difference of any tensor after any batch."""
    found, nothing = 0.0, dict[str, Tensor]()
    for before, after in zip_longest(old, new, fillvalue=nothing):
        if before.keys() != after.keys():
            return torch.inf
        found = max([found, *(apart(before[name], after[name]) for name in before)])
    return found


def apart(old: Tensor, new: Tensor) -> float:
    """The largest difference of two tensors; infinite where they cannot be compared."""
    if old.shape != new.shape or old.dtype != new.dtype:
        return torch.inf
    differs = (old != new) & ~(old.isnan() & new.isnan())
    return float((old - new)[differs].abs().nan_to_num(torch.inf).max()) if differs.any() else 0.0


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each stream; 1 if any differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--streams", nargs="+", default=["*"], metavar="PATTERN")
    parser.add_argument("--tolerance", type=float, default=0.0)
    options = parser.parse_args(arguments)
    old, new = (streams_of(version, options.streams) for version in (options.old, options.new))
    if not old and not new:
        parser.error(f"no stream is called {' or '.join(options.streams)}.")
    print(f"{'stream':<32}{'answers':>10}{'scores':>10}{'parameters':>12}  verdict")
    differing = 0
    for name in {**old, **new}:
        found = difference(old.get(name), new.get(name))
        same = found.within(options.tolerance)
        differing += not same
        answers = "equal" if found.answers else "differ"
        verdict = found.error or ("same" if same else "DIFFERENT")
        print(f"{name:<32}{answers:>10}{found.scores:>10.1e}{found.params:>12.1e}  {verdict}")
    print(f"{len({**old, **new})} streams, {differing} different")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
