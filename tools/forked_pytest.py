"""Runs of pytest forked from a process that has the large libraries imported already."""

import math
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

LIBRARIES = (  # those that are installed; importing them starts no thread
    *("pytest", "hypothesis", "numpy", "scipy.stats", "PIL.Image", "torch", "torch._dynamo"),
    *("fastapi.testclient", "uvicorn", "sqlalchemy", "alembic", "psycopg", "pyarrow.parquet"),
    *("qdrant_client", "prometheus_client", "safetensors.torch", "typer.testing", "jinja2"),
)
OPTIONS = (
    *("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=no"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # plugins are imported before pytest runs
)
IDLE = 60.0  # seconds on the clock without CPU time after which tests wait for ever


class ForkedPytest:
    """Runs tests of a project against another copy of its source.

    Args:
        root: The project's folder.
        source: The copy, which comes first on the path.
        compiled: The folder for what Python compiles.

    Attributes:
        spent: The CPU seconds that all runs took.
    """

    def __init__(self, root: Path, source: Path, compiled: Path) -> None:
        self._places, self.spent = (root, source, compiled), 0.0
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(list(LIBRARIES))

    def run(self, tests: list[str], seconds: float) -> tuple[int | None, str]:
        """Run tests until one fails.

        Args:
            tests: Their names.
            seconds: The CPU time they may take: how busy the machine is does not matter.

        Returns:
            Pytest's exit code, None where time was up or the tests only waited; and the test that
            failed.
        """
        code, failed = self._forked(_failed_first, tests, seconds)
        return code, failed or tests[0]

    def recorded(self, file: str, seconds: float) -> dict[str, Any]:
        """The tests of a file that pass, with the lines each runs; none where time was up."""
        return self._forked(_lines_of_each, [file], seconds)[1] or {}

    def _forked(
        self, function: Callable[[Path, list[str]], Any], tests: list[str], seconds: float
    ) -> tuple[int | None, Any]:
        ours, theirs = self._context.Pipe(duplex=False)
        path = os.environ.get("PYTHONPATH", "")  # of now: the fork server keeps that of its start
        arguments = (function, *self._places, path, tests, seconds, theirs)
        process = self._context.Process(target=_run, args=arguments)
        process.start()
        theirs.close()
        used, before = 0.0, -1.0
        try:
            while not ours.poll(IDLE) and (used := _cpu_seconds(process.pid or 0)) > before + 0.1:
                before = used
            code, found, used = ours.recv() if ours.poll() else (None, None, used)
            return code, found
        except EOFError:  # it died
            process.join()
            if process.exitcode != -signal.SIGXCPU:
                return -1, None
            used = seconds
            return None, None
        finally:
            self.spent += used
            with suppress(ProcessLookupError):  # with servers that tests have started
                os.killpg(process.pid or 0, signal.SIGKILL)
            process.kill()
            process.join()
            ours.close()


def _cpu_seconds(process: int) -> float:
    """The CPU time of a process so far."""
    with suppress(FileNotFoundError):
        times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    return 0.0  # it has ended


def _run(
    function: Callable[[Path, list[str]], Any],
    root: Path,
    source: Path,
    compiled: Path,
    more: str,
    tests: list[str],
    seconds: float,
    report: Connection,
) -> None:
    """Run the tests in this process, and send what came of it."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (max(1, math.ceil(seconds)), resource.RLIM_INFINITY))
    os.chdir(root)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    paths = [str(source), str(root)]
    sys.path[:] = [*paths, *(path for path in sys.path if path not in paths)]
    sys.pycache_prefix, sys.dont_write_bytecode = str(compiled), False
    paths += [path for path in more.split(os.pathsep) if path]
    os.environ |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONPYCACHEPREFIX": str(compiled)}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    code, found = function(source, tests)
    report.send((code, found, sum(os.times()[:4])))
    os._exit(0)  # whatever threads the tests have left


def _failed_first(source: Path, tests: list[str]) -> tuple[int, str]:
    import pytest

    first = FirstFailure()
    return int(pytest.main(["-x", *OPTIONS, *tests], plugins=[first])), first.test


def _lines_of_each(source: Path, tests: list[str]) -> tuple[int, dict[str, Any]]:
    import pytest

    from .record_lines import LineRecorder

    recorder = LineRecorder(source / "queryshift")
    return int(pytest.main([*OPTIONS, *tests], plugins=[recorder])), recorder.tests


class FirstFailure:
    """A plugin of pytest that keeps the name of the first test that fails."""

    test = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Look at a test."""
        if report.failed:
            self.test = self.test or report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        """Look at a file that may not be importable."""
        if report.failed:
            self.test = self.test or report.nodeid
