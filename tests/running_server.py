"""A server as a user starts it: a process of its own, on a free port, ended by its id."""

import resource
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import httpx

from forked_commands import start

SMALL = """
[collections.tangram]
candidates = 64
mode = "live"
keep_queries = 20
gather = 8
guard = { collapse = 0.9 }
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A running `queryshift serve`."""

    scheme, verify = "http", True

    def __init__(
        self, folder: Path, toml: str = SMALL, options: Sequence[str] = (), **environment: str
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "serve.toml").write_text(toml)
        self.folder, self.port, self.log = folder, free_port(), folder / "log"
        self.url = f"{self.scheme}://127.0.0.1:{self.port}"
        self._options, self._environment = options, environment
        self.start()

    def start(self) -> None:
        given = ("--port", self.port, "--data", "data", *self._options)
        about = {"folder": self.folder, "log": self.log, **self._environment}
        self.process = start("serve", "serve.toml", *given, **about)
        self._wait()

    def _wait(self, seconds: float = 600) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(self.log.read_text())
            try:
                if httpx.get(f"{self.url}/readyz", verify=self.verify).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def client(self, token: str | None = None, **options) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        about = {"base_url": self.url, "verify": self.verify, "timeout": 60}
        return httpx.Client(headers=headers, **about, **options)

    def send(self, number: signal.Signals) -> int:
        """End the process by a signal; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)

    def limit_files(self, size: int) -> None:
        """Let the process write no file beyond a size, as a full disk would."""
        _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, hard))

    def stop(self) -> int:
        return 0 if self.process.poll() is not None else self.send(signal.SIGTERM)

    def kill(self) -> int:
        return self.send(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.stop()
