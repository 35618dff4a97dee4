"""Real engines on loopback: each is started here, and stopped by its process id."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from postgres_server import free_port, listens, wait_until


class MilvusServer:
    """Milvus 2.3.5, from the package milvus.

    Its launcher writes the configuration and starts the server, which would outlive it. It takes
    another port where one was in use a minute ago, so that it is needed for the first start only:
    later ones run the same command in the same environment.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.pid = folder, free_port(), 0
        self.command: list[str] = []
        self.environment: dict[str, str] = {}

    @property
    def address(self) -> str:
        return f"milvus://127.0.0.1:{self.port}"

    def start(self) -> None:
        with Path(f"{self.folder}.log").open("ab") as log:
            if not self.command:
                self._launch(log)
            else:
                started = subprocess.Popen(
                    self.command, env=self.environment, cwd=self.folder, stdout=log, stderr=log
                )
                self.pid = started.pid
        wait_until(lambda: listens(self.port), 120)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        wait_until(lambda: not listens(self.port), 20)
        with suppress(ChildProcessError):  # the launcher's child is not ours to wait for
            os.waitpid(self.pid, 0)

    stop = kill

    def _launch(self, log: BinaryIO) -> None:
        program = str(Path(sys.executable).parent / "milvus-server")
        launcher = subprocess.Popen(
            [sys.executable, program, "--data", self.folder, "--proxy-port", str(self.port)],
            stdout=log,
            stderr=log,
        )
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
        wait_until(lambda: bool(children.read_text().split()) or launcher.poll() is not None, 60)
        self.pid = int(children.read_text().split()[0])
        process = Path(f"/proc/{self.pid}")
        wait_until(lambda: "standalone" in (process / "cmdline").read_text(), 10)
        self.command = (process / "cmdline").read_text().rstrip("\0").split("\0")
        words = (process / "environ").read_text().rstrip("\0").split("\0")
        self.environment = dict(word.split("=", 1) for word in words)
        launcher.kill()
        launcher.wait(20)
