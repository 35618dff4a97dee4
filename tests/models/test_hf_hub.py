"""A Hub that cannot be reached is told in seconds."""

import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import queryshift as qs
from queryshift.errors import BadInput
from queryshift.models import hf

constants = pytest.importorskip("huggingface_hub.constants")


@pytest.fixture()
def online(monkeypatch):
    """Ask the Hub at this address, as if nobody had said to stay offline."""

    def ask(address: str) -> None:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", address)

    return ask


def test_one_that_never_answers_costs_less_than_five_seconds(online):
    with pytest.raises(BadInput, match="cannot be reached"):
        qs.load("somebody/some-model")  # imports transformers, before the clock runs
    with socket.create_server(("127.0.0.1", 0)) as silent:
        online(f"http://127.0.0.1:{silent.getsockname()[1]}")
        begun = time.monotonic()
        with pytest.raises(BadInput, match=r"http://127\S+ cannot be reached .* go online once"):
            qs.load("somebody/some-model")
        assert time.monotonic() - begun < 5


def test_one_that_refuses_is_told_at_once(online):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    online(f"http://127.0.0.1:{port}")
    begun = time.monotonic()
    assert not hf.reachable()
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize("status", [200, 404])
def test_one_that_answers_anything_is_there(status, online):
    class Answers(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        online(f"http://127.0.0.1:{server.server_port}")
        assert hf.reachable()
        server.shutdown()


def test_who_wants_to_stay_offline_is_not_asked(online, monkeypatch):
    online("http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hf, "_ask", lambda *_: pytest.fail("asked"))
    assert not hf.reachable()
