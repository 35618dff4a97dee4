"""`queryshift` commands, forked from one process that has imported everything: each starts at once.

Run as a program it is that process: it reads what to start, a JSON object a line, prints the id of
the process, and keeps its exit code in a file when it has ended.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp


class Command:
    """A running command, with what `subprocess.Popen` has."""

    def __init__(self, pid: int, code: Path, out: Path, err: Path) -> None:
        self.pid, self.returncode, self._code, self._said = pid, None, code, (out, err)

    def poll(self) -> int | None:
        if self.returncode is None and self._code.exists():
            self.returncode = int(self._code.read_text())
        return self.returncode

    def wait(self, timeout: float = 120) -> int:
        end = time.monotonic() + timeout
        while self.poll() is None:
            assert time.monotonic() < end, f"{self.pid} does not end: {self.said()}"
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def said(self) -> tuple[str, str]:
        """What it has written so far: as output, and as errors."""
        out, err = (path.read_text(encoding="utf-8", errors="replace") for path in self._said)
        return out, err

    def communicate(self, timeout: float = 120) -> tuple[str, str]:
        self.wait(timeout)
        return self.said()


class _Forking:
    """The process that commands are forked from."""

    def __init__(self) -> None:
        self._folder, self._number = Path(mkdtemp(prefix="queryshift-commands-")), 0
        path = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **path},
            start_new_session=True,
        )
        atexit.register(self.stop)

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()
        rmtree(self._folder)

    def start(self, arguments: list[str], log: Path | None, **asked: object) -> Command:
        self._number += 1
        code, out, err = (self._folder / f"{self._number}.{end}" for end in ("code", "out", "err"))
        out, err = (out, err) if log is None else (log, log)
        told = {"arguments": arguments, "code": str(code), "out": str(out), "err": str(err)}
        self._process.stdin.write(json.dumps(told | asked) + "\n")
        self._process.stdin.flush()
        return Command(int(self._process.stdout.readline()), code, out, err)


_forking = cache(_Forking)  # one for all tests of a process


def start(
    *arguments: object,
    folder: Path | None = None,
    log: Path | None = None,
    path: tuple[str, ...] = (),
    **environment: str,
) -> Command:
    """Start `queryshift` with these arguments.

    Args:
        arguments: what comes after `queryshift`.
        folder: where it runs; here by default.
        log: the file for all it says; one file for output and one for errors by default.
        path: more folders to import from.
        environment: changes to the environment of the tests.
    """
    here = str(folder or Path.cwd())
    told = {"folder": here, "path": path, "environment": {**os.environ, **environment}}
    return _forking().start([str(one) for one in arguments], log, **told)


def _become(asked: dict) -> None:
    """Make this forked process the one that was asked for."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path[:0] = [asked["folder"], *asked["path"]]
    how = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    opened = (os.open(os.devnull, os.O_RDONLY), *(os.open(asked[o], how) for o in ("out", "err")))
    for number, file in enumerate(opened):
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["queryshift", *asked["arguments"]]


def _fork_commands() -> bool:
    """Fork what is asked for, until nobody asks; True in a forked process."""
    import queryshift.lab.evaluation.runner.cell_executors
    import queryshift.lab.tangram
    import queryshift.serving.serve  # noqa: F401 - what takes long

    codes: dict[int, str] = {}

    def ended(*_: object) -> None:
        for pid in list(codes):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                code = Path(codes.pop(pid))
                part = code.with_suffix(".part")
                part.write_text(str(os.waitstatus_to_exitcode(status)))
                part.rename(code)

    signal.signal(signal.SIGCHLD, ended)
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        codes[pid] = asked["code"]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        if pid == 0:
            _become(asked)
            return True
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
    return False


if __name__ == "__main__" and _fork_commands():
    from queryshift.cli import main

    main()
