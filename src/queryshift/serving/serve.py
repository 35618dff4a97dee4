"""A server from its settings: checks, what holds for the whole process, and uvicorn."""

from __future__ import annotations

import ctypes
import ipaddress
import logging
import os
import sys
import warnings
from contextlib import nullcontext
from typing import Any

import torch
import uvicorn

from queryshift.errors import BadInput
from queryshift.media.item_reading import Limits, set_limits
from queryshift.sessions.events import GuardWarning

from .app import make_app
from .http.limits import Connections, protocol_of
from .http.request_log import log_config
from .metrics import Metrics
from .service import Service
from .settings import ServeSettings
from .store.folder_lock import locked_folder

M_ARENA_MAX, ARENAS = -8, 2  # of glibc's mallopt
SWITCH = 0.0005  # seconds after which who answers has Python's lock from who decodes or learns


def serve(settings: ServeSettings) -> None:
    """Serve until a signal ends it; requests under way are answered, and all is written.

    Args:
        settings: of the server.
    """
    check_exposure(settings)
    prepare(settings)
    metrics, connections = Metrics(), Connections(settings.limits.connections)
    options = _options(settings, connections)
    held = locked_folder(settings.data) if settings.store is None else nullcontext()
    with held:
        here = Service(settings, metrics)
        uvicorn.run(make_app(settings, here, metrics, connections), **options)


def check_exposure(settings: ServeSettings) -> None:
    """Refuse to serve more than this machine without tokens."""
    if settings.tokens or is_loopback(settings.host):
        return
    raise BadInput(
        f'host is "{settings.host}", which others can reach, and there are no tokens: add '
        "[[tokens]] (queryshift serve --new-token makes one), or serve 127.0.0.1."
    )


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _options(settings: ServeSettings, connections: Connections) -> dict[str, Any]:
    if (settings.tls_key is None) != (settings.tls_certificate is None):
        raise BadInput("TLS needs both tls_certificate and tls_key.")
    for name in ("tls_certificate", "tls_key"):
        path = getattr(settings, name)
        if path is not None and not path.is_file():
            raise BadInput(f'{name} is "{path}", and there is no such file: name a PEM file.')
    return {
        "host": settings.host,
        "port": settings.port,
        "log_config": log_config(),
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": max(1, round(settings.drain_seconds / 2)),
        "ssl_certfile": settings.tls_certificate,
        "ssl_keyfile": settings.tls_key,
        "http": protocol_of(settings.limits, connections),
        "ws": "none",
    }


def prepare(settings: ServeSettings) -> None:
    """Set limits on what is read, threads of torch and Python, malloc's arenas, warnings."""
    _limit_arenas()
    given = settings.limits
    sizes = {"pixels": given.pixels, "file_bytes": given.body_bytes}
    set_limits(Limits(**sizes, seconds=given.seconds, characters=given.characters))
    sys.setswitchinterval(SWITCH)
    torch.set_num_threads(settings.threads or max(1, (os.cpu_count() or 2) - 1))
    warnings.simplefilter("ignore", GuardWarning)  # logged, and an event of the tenant
    _make_logging_cheap()


def _make_logging_cheap() -> None:
    """Leave out of log records what our lines do not tell: it is found out for every request."""
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # as the logging how-to says


def _limit_arenas() -> None:
    """Let threads share arenas: each of its own keeps for ever what its largest moment took."""
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if mallopt is not None:
            mallopt(M_ARENA_MAX, ARENAS)
