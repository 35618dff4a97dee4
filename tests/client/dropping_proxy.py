"""A TCP proxy that passes requests on and drops the first answers, as a dying network does."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class DroppingProxy:
    """Passes one connection after another on to a service.

    `drops` connections are closed after the service has answered, before the client reads it.
    """

    def __init__(self, target: str, drops: int) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self.left = drops
        self.answered = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client, socket.create_connection(self._target) as service:
                self._pass_on(client, service)

    def _pass_on(self, client: socket.socket, service: socket.socket) -> None:
        """Requests there and answers back, until one side closes or an answer is dropped."""
        there = threading.Thread(target=_copy, args=(client, service))
        there.start()
        while answer := service.recv(65536):
            self.answered += 1
            if self.left:
                self.left -= 1
                break
            client.sendall(answer)
        _shut(client)
        _shut(service)
        there.join()

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self._thread.join()


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was faster
        end.shutdown(socket.SHUT_RDWR)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while content := source.recv(65536):
            target.sendall(content)
        _shut(target)


@contextlib.contextmanager
def dropping(target: str, drops: int) -> Iterator[DroppingProxy]:
    proxy = DroppingProxy(target, drops)
    try:
        yield proxy
    finally:
        proxy.close()
