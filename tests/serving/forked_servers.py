"""Servers forked from one process that has imported everything: each starts in a second.

Run as a program it is that process: it reads what to start, a JSON object a line, and prints the
id of the process.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from running_server import Server


class Forked:
    """A process by its id, with what `subprocess.Popen` has."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        return None if Path(f"/proc/{self.pid}").exists() else 0

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float) -> int:
        end = time.monotonic() + seconds
        while self.poll() is None:
            assert time.monotonic() < end, f"{self.pid} does not end"
            time.sleep(0.01)
        return 0


class Fork:
    """The process that servers are forked from."""

    def __init__(self) -> None:
        path = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **path},
        )

    def start(self, **asked: Any) -> Forked:
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Forked(int(self._process.stdout.readline()))

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


class ForkedServer(Server):
    """A running `queryshift serve` that was forked."""

    def __init__(self, fork: Fork, folder: Path, toml: str, **environment: str) -> None:
        self._fork = fork
        super().__init__(folder, toml, **environment)

    def start(self) -> None:
        command = ["serve", "serve.toml", "--port", str(self.port), "--data", "data"]
        about = {"folder": str(self.folder), "log": str(self.log), "environment": self._environment}
        self.process = self._fork.start(command=command, **about)
        self._wait()


def serve(command: list[str], folder: str, log: str, environment: dict[str, str]) -> None:
    from queryshift.cli import main

    os.chdir(folder)
    os.environ.update(environment)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    main(command)


def fork_servers() -> None:
    import queryshift.lab.tangram
    import queryshift.serving.serve  # noqa: F401 - what takes long

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those that end are gone at once
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                serve(**json.loads(line))
            finally:
                os._exit(0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    fork_servers()
