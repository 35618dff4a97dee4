"""A server from its settings: the application, what holds for the whole process, and uvicorn."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import torch
import uvicorn
from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from queryshift import __version__
from queryshift.errors import BadInput
from queryshift.media.limits import Limits, set_limits
from queryshift.sessions.events import GuardWarning

from .http import routes_collections, routes_server, routes_tenants
from .http.access import BEARER, OriginCheck, TokenCheck, check_exposure
from .http.limits import BodyLimit, ConnectionLimit, Connections, protocol_of
from .http.request_context import ServerContext, in_turn
from .http.request_log import RequestLog, log_config, refuse
from .metrics import Metrics
from .service import Service
from .settings import ServeSettings
from .store.database import locked_folder

M_ARENA_MAX, ARENAS = -8, 2  # of glibc's mallopt
SWITCH = 0.0005  # seconds after which who answers has Python's lock from who decodes or learns
ALLOWED = ["authorization", "content-type", "idempotency-key", "x-queryshift-tenant"]


def make_app(
    settings: ServeSettings, service: Service, metrics: Metrics, connections: Connections
) -> FastAPI:
    """The application of a server.

    Args:
        settings: of the server.
        service: who answers; it starts and ends with the application.
        metrics: what is counted.
        connections: those that are open.
    """

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="queryshift",
        version=__version__,
        description="Retrieval that adapts to the queries it really gets.",
        lifespan=life,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
    )
    app.state.context = ServerContext(settings, service, metrics)
    for routes in (routes_collections, routes_tenants):
        app.include_router(routes.router, dependencies=[BEARER, Depends(in_turn)])
    app.include_router(routes_server.router)
    app.router.routes.insert(0, routes_collections.direct)
    for kind in (HTTPException, RequestValidationError):
        app.add_exception_handler(kind, refuse)
    app.add_middleware(BodyLimit, limits=settings.limits)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=ALLOWED,
            expose_headers=["retry-after", "x-request-id"],
        )
    app.add_middleware(TokenCheck, settings=settings, metrics=metrics)
    app.add_middleware(OriginCheck, settings=settings)
    app.add_middleware(ConnectionLimit, connections=connections)
    app.add_middleware(RequestLog, metrics=metrics)
    return app


def serve(settings: ServeSettings) -> None:
    """Serve until a signal ends it; requests under way are answered, and all is written.

    Args:
        settings: of the server.
    """
    check_exposure(settings)
    prepare(settings)
    metrics, connections = Metrics(), Connections(settings.limits.connections)
    options = _options(settings, connections)
    with locked_folder(settings.data) if settings.store is None else nullcontext():
        service = Service(settings, metrics)
        uvicorn.run(make_app(settings, service, metrics, connections), **options)


def _options(settings: ServeSettings, connections: Connections) -> dict[str, Any]:
    if (settings.tls_key is None) != (settings.tls_certificate is None):
        raise BadInput("TLS needs both tls_certificate and tls_key.")
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
    # what our log lines do not tell, and would be found out for every request
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # as the logging how-to says


def _limit_arenas() -> None:
    """Let threads share arenas: each of its own keeps for ever what its largest moment took."""
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if mallopt is not None:
            mallopt(M_ARENA_MAX, ARENAS)
