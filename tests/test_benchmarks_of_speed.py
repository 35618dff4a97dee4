"""The scripts in `bench/` can be imported: what they take from the package is still there."""

import os
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[1] / "bench"
PEERS = {"corruptions"}  # needs an environment of its own


def test_every_script_finds_what_it_imports_and_what_it_times():
    scripts = sorted({path.stem for path in BENCH.glob("*.py")} - PEERS)
    code = (
        "import importlib; "
        f"known = {{name: importlib.import_module(name) for name in {scripts!r}}}; "
        "print(all(hasattr(owner, name) for owner, name in known['adapt'].RUNNING))"
    )
    paths = os.pathsep.join([str(BENCH), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout == "True\n", done.stderr
