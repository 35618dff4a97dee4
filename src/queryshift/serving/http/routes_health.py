"""Whether the server lives and is ready, and what it counts."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from .request_context import check_allowed, context_of
from .tokens import BEARER

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> JSONResponse:
    """Whether it can answer; a disk that cannot be written is told, and answers go on."""
    service = context_of(request).service
    ready, trouble = service.healthy(), service.trouble
    told = {
        "status": "ready" if ready else "not ready",
        "disk": "ok" if trouble is None else "cannot be written: answers go on, nothing is saved",
        "collections": service.names(),
    }
    return JSONResponse(told, 200 if ready else 503)


@router.get("/metrics", dependencies=[BEARER])
async def metrics(request: Request) -> Response:
    """Prometheus metrics of this process."""
    context = context_of(request)
    if not context.settings.open_metrics:
        check_allowed(request, "read", "*", "*")
    return Response(context.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
