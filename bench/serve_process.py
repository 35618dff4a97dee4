"""A `queryshift serve` of its own: started on a free port, ended by its id."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen


class Server:
    """A running server; the environment is this process's, with one thread for torch."""

    def __init__(self, folder: Path, toml: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "serve.toml").write_text(toml)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url, self.log = f"http://127.0.0.1:{self.port}", folder / "log"
        command = [sys.executable, "-m", "queryshift", "serve", "serve.toml"]
        command += ["--port", str(self.port), "--data", "data"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=log
            )

    def __enter__(self) -> Server:
        for _ in range(3000):
            if self.process.poll() is not None:
                raise RuntimeError(self.log.read_text())
            try:
                with urlopen(f"{self.url}/readyz", timeout=5):
                    return self
            except (URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        raise RuntimeError("the server does not become ready")

    def __exit__(self, *error: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def get(self, path: str) -> Any:
        """The parsed answer to a GET."""
        with urlopen(self.url + path, timeout=30) as answer:
            return json.load(answer)

    def metric(self, start: str) -> float:
        """The sum of the metrics whose line starts so."""
        with urlopen(f"{self.url}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(start))

    def memory(self) -> float:
        """MB that the process holds."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu(self) -> float:
        """Seconds of processor time that its threads have had."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(one.read_text().split()[0]) for one in tasks) / 1e9
