"""Whether the server lives and is ready, what it counts, and the files of the page."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response

from ..errors import NotFound
from .access import BEARER
from .request_context import check_allowed, context_of

router = APIRouter(tags=["operations"])
PAGE = Path(__file__).parents[1] / "page"
FILES = {path.name: path for path in sorted(PAGE.glob("*")) if path.is_file()}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> JSONResponse:
    """Whether it can answer; a disk that cannot be written is told, and answers go on."""
    service = context_of(request).service
    ready, trouble = service.healthy(), service.writer.trouble
    told = {
        "status": "ready" if ready else "not ready",
        "disk": "ok" if trouble is None else "cannot be written: answers go on, nothing is saved",
        "collections": service.names,
    }
    return JSONResponse(told, 200 if ready else 503)


@router.get("/metrics", dependencies=[BEARER])
async def metrics(request: Request) -> Response:
    """Prometheus metrics of this process."""
    context = context_of(request)
    if not context.settings.open_metrics:
        check_allowed(request, "read", "*", "*")
    return Response(context.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/", include_in_schema=False)
async def index() -> FileResponse:
    """The page itself."""
    return await file("index.html")


@router.get("/page/{name}", include_in_schema=False)
async def file(name: str) -> FileResponse:
    """One of its files, by a name of the list: no path is made from a request."""
    if name not in FILES:
        raise NotFound(f'the page has no file "{name}".')
    return FileResponse(FILES[name], headers=HEADERS)
