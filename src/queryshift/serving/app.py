"""The application: routes, middleware, and the life of the tenants behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from queryshift import __version__

from .http import routes_collections, routes_health, routes_page, routes_search, routes_tenants
from .http.limits import BodyLimit, ConnectionLimit, Connections
from .http.origin_check import OriginCheck
from .http.request_context import ServerContext
from .http.request_log import RequestLog, refuse
from .http.tokens import BEARER, TokenCheck
from .metrics import Metrics
from .service import Service
from .settings import ServeSettings

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
    for routes in (routes_search, routes_collections, routes_tenants):
        app.include_router(routes.router, dependencies=[BEARER])
    for routes in (routes_health, routes_page):
        app.include_router(routes.router)
    app.router.routes.insert(0, routes_search.direct)
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
