"""The system of docs/deploy without Docker: PostgreSQL, replicas of the service, nginx."""

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

import httpx

from postgres_server import PostgresServer, free_port, wait_until
from running_server import Server

CONF = Path(__file__).parents[2] / "docs" / "deploy" / "nginx.conf"
MAIN = """
worker_processes 1;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include {conf};
}}
"""


def nginx_program() -> str | None:
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def configured(folder: Path, port: int, replicas: list[int]) -> Path:
    """The configuration of the docs at this port, over replicas at those."""
    told = CONF.read_text(encoding="utf-8").replace("listen 80;", f"listen {port};")
    for number, other in enumerate(replicas, 1):
        told = told.replace(f"replica-{number}:8080", f"127.0.0.1:{other}")
    assert "replica-" not in told
    (folder / "queryshift.conf").write_text(told)
    main = folder / "nginx.conf"
    main.write_text(MAIN.format(conf=folder / "queryshift.conf"))
    return main


class Nginx:
    """nginx with the configuration of the docs, over these replicas."""

    def __init__(self, ports: list[int]) -> None:
        self.folder, self.port = Path(mkdtemp(prefix="queryshift-nginx-")), free_port()
        self.folder.chmod(0o755)
        main = configured(self.folder, self.port, ports)
        command = [nginx_program(), "-p", str(self.folder), "-c", str(main), "-g", "daemon off;"]
        self.process = subprocess.Popen(command)
        self.url = f"http://127.0.0.1:{self.port}"
        wait_until(self._answers, 20)

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "error.log").read_text()
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/healthz").status_code == 200
        return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        shutil.rmtree(self.folder)


class Deployment:
    """PostgreSQL with its writes on disk, and so many replicas over one database."""

    def __init__(self, folder: Path, toml: str, count: int = 3) -> None:
        self.postgres, self.replicas = PostgresServer(), []
        try:
            self.postgres.start("on")
            self.address = self.postgres.database("service")
            for number in range(count):
                store = {"QUERYSHIFT_STORE": self.address, "QUERYSHIFT_THREADS": "1"}
                made = Server(folder / f"replica-{number}", toml, **store)
                self.replicas.append(made)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for replica in self.replicas:
            if replica.process.poll() is None:
                replica.stop()
        self.postgres.stop()

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
