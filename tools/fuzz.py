"""`make fuzz`: rounds of the fuzz tests with new seeds, until a million inputs were tried.

What was tried is kept in .fuzz/tried.json: the same command goes on from there. The environment
says how far it goes: FUZZ_INPUTS (1,000,000 in all) and FUZZ_MINUTES (no bound). A round that
fails ends it; the printed command repeats that round.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(".fuzz")
OF_A_TEST = int(os.environ.get("FUZZ_EXAMPLES", 500))  # inputs of a test and round


def one_round(seed: int) -> Counter[str] | None:
    """What each test tried with this seed; None where one failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "tests/fuzz"]
    command += [f"--hypothesis-seed={seed}"]
    with TemporaryDirectory() as counts:
        told = {"FUZZ_EXAMPLES": str(OF_A_TEST), "FUZZ_COUNTS": counts, "OMP_NUM_THREADS": "1"}
        failed = subprocess.run(command, env={**os.environ, **told}).returncode
        tried = Counter[str]()
        for file in Path(counts).glob("*.json"):
            tried.update(json.loads(file.read_text()))
    if failed:
        print(f"seed {seed} failed: FUZZ_EXAMPLES={OF_A_TEST} {' '.join(command)}")
    return None if failed else tried


def main() -> int:
    """Run rounds; the exit code is 1 where one failed."""
    FOLDER.mkdir(exist_ok=True)
    kept = FOLDER / "tried.json"
    done = json.loads(kept.read_text()) if kept.is_file() else {"seed": 0, "tried": {}}
    wanted = int(os.environ.get("FUZZ_INPUTS", 1_000_000))
    ends = time.monotonic() + 60 * float(os.environ.get("FUZZ_MINUTES", "inf"))
    while sum(done["tried"].values()) < wanted and time.monotonic() < ends:
        tried = one_round(done["seed"] + 1)
        if tried is None:
            return 1
        done = {"seed": done["seed"] + 1, "tried": Counter(done["tried"]) + tried}
        kept.write_text(json.dumps(done))
        print(f"seed {done['seed']}: {sum(done['tried'].values()):,} of {wanted:,} inputs")
    for name, count in sorted(done["tried"].items()):
        print(f"{count:>10,}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
