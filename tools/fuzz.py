"""`make fuzz`: rounds of the fuzz tests with new seeds, until a million inputs were tried.

What was tried is kept in .fuzz/tried.json: the same command goes on from there. The environment
says how far it goes, FUZZ_INPUTS (1,000,000 in all) and FUZZ_MINUTES (no bound), and in how many
processes, FUZZ_PROCESSES (2). A round that fails ends it, and so does Ctrl-C: what its finished
tests tried counts, and the next start takes another seed. The printed command repeats the round.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory

KEPT = Path(".fuzz/tried.json")
IN_MEMORY = Path("/dev/shm")  # where there is one, no file of a test waits for a disk
OF_A_TEST = int(os.environ.get("FUZZ_EXAMPLES", 1000))  # inputs of a test and round
Counts = dict[str, Counter[str]]  # of each test, its inputs and how many of them were refused


def one_round(seed: int) -> tuple[Counts, bool]:
    """What each test tried with this seed, and whether the round went well to its end."""
    processes = os.environ.get("FUZZ_PROCESSES", "2")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/fuzz"]
    command += [f"--hypothesis-seed={seed}", *(["-n", processes] if processes != "1" else [])]
    with TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        told = {"FUZZ_EXAMPLES": str(OF_A_TEST), "FUZZ_COUNTS": folder, "OMP_NUM_THREADS": "1"}
        inside = ["--basetemp", f"{folder}/files"]
        well = _ran([*command, *inside], {**os.environ, **told})
        tried = added(json.loads(file.read_text()) for file in Path(folder).glob("*.json"))
    if not well:
        print(f"seed {seed} did not end well: FUZZ_EXAMPLES={OF_A_TEST} {' '.join(command)}")
    return tried, well


def _ran(command: list[str], environment: dict[str, str]) -> bool:
    """Whether a command ended by itself and well."""
    try:
        return subprocess.run(command, env=environment).returncode == 0
    except KeyboardInterrupt:
        return False


def added(parts) -> Counts:
    """The sums of several counts."""
    total: Counts = {}
    for part in parts:
        for name, counts in part.items():
            total[name] = total.get(name, Counter()) + Counter(counts)
    return total


def inputs_of(tried: Counts) -> int:
    """All inputs of all tests."""
    return sum(counts["inputs"] for counts in tried.values())


def _cpu_seconds() -> float:
    """What all rounds so far took, which the machine's other work does not change much."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Run rounds; the exit code is 1 where one failed."""
    KEPT.parent.mkdir(exist_ok=True)
    kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {"seed": 0, "tried": {}}
    done = {"seed": kept["seed"], "tried": added([kept["tried"]])}
    wanted = int(os.environ.get("FUZZ_INPUTS", 1_000_000))
    ends = time.monotonic() + 60 * float(os.environ.get("FUZZ_MINUTES", "inf"))
    well = True
    while well and inputs_of(done["tried"]) < wanted and time.monotonic() < ends:
        began, seed = _cpu_seconds(), done["seed"] + 1
        tried, well = one_round(seed)
        done = {"seed": seed, "tried": added((done["tried"], tried))}
        KEPT.write_text(json.dumps(done))
        each_second = inputs_of(tried) / (_cpu_seconds() - began)
        so_far = f"{inputs_of(done['tried']):,} of {wanted:,} inputs"
        print(f"seed {seed}: {so_far}, {each_second:.0f} a second of CPU time", flush=True)
    for name, counts in sorted(done["tried"].items()):
        print(
            f"{counts['inputs']:>10,}  {counts['refused'] / counts['inputs']:4.0%} refused  {name}"
        )
    return int(not well)


if __name__ == "__main__":
    sys.exit(main())
