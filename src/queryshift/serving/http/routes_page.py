"""The page: files of the package, served as they are."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

from ..errors import NotFound

router = APIRouter(include_in_schema=False)
PAGE = Path(__file__).parents[1] / "page"
FILES = {path.name: path for path in sorted(PAGE.glob("*")) if path.is_file()}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@router.get("/")
async def index() -> FileResponse:
    """The page itself."""
    return await file("index.html")


@router.get("/page/{name}")
async def file(name: str) -> FileResponse:
    """One of its files, by a name of the list: no path is made from a request."""
    if name not in FILES:
        raise NotFound(f'the page has no file "{name}".')
    return FileResponse(FILES[name], headers=HEADERS)
