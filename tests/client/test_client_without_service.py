"""The client where no service answers, or something else does."""

import asyncio
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from core_dependencies import refusing
from queryshift.client import AsyncClient, Client
from queryshift.client.retries import Retries
from queryshift.errors import BadInput, ServiceLost

HASTY = Retries(count=1, first=0.01)


@pytest.fixture
def nobody():
    """An address at which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def website():
    """Another program's address: it answers everything with a page."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<h1>hello</h1>")

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_service_that_is_not_there(nobody):
    with (
        Client(nobody, "scenes", token="s3cret", retries=HASTY) as client,
        pytest.raises(ServiceLost, match="is the service running") as lost,
    ):
        client.tenants()
    assert nobody in str(lost.value) and "s3cret" not in str(lost.value)


def test_the_same_from_coroutines(nobody):
    async def ask():
        async with AsyncClient(nobody, "scenes", retries=HASTY) as client:
            await client.search(["a red square"])

    with pytest.raises(ServiceLost, match="is the service running"):
        asyncio.run(ask())


def test_something_else_at_the_address(website):
    with (
        Client(website, "scenes") as client,
        pytest.raises(ServiceLost, match="not queryshift's"),
    ):
        client.collections()


def test_an_address_without_its_scheme():
    with pytest.raises(BadInput, match="begin it with http"):
        Client("localhost:8000", "scenes")


def test_it_needs_neither_torch_nor_numpy():
    program = """
import sys
import queryshift.client
print([name for name in ("torch", "numpy", "PIL") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.strip() == "[]", ran.stdout + ran.stderr


def test_without_httpx_it_says_which_extra_brings_it():
    program = refusing() + "import queryshift.client"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert 'pip install "queryshift[client]"' in ran.stderr
