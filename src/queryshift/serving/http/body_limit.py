"""Bodies over the limit are refused before they are read into memory; slow ones too."""

from __future__ import annotations

import asyncio
from typing import Any

from ..errors import TooLarge, TooSlow

SMALL = 2**20  # bytes of what is asked about tenants, which is no query
MARKS = {b":": 2**17, b"{": 2**17, b"[": 2**17, b",": 2**20}
"""How often a body may have what JSON is made of: a small value takes 100 times its bytes."""

SLOWEST = 10_000  # bytes a second that buy a body more time


class BodyLimit:
    """Counts the bytes of a request's body, whatever its headers say, and the time it takes.

    Args:
        app: the application behind it.
        most: bytes of a body.
        seconds: that it may take to come; a large one has a second more for each 10,000 bytes.
    """

    def __init__(self, app: Any, most: int, seconds: float) -> None:
        self._app, self._most, self._seconds = app, most, seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, counting what is read of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = min(self._most, SMALL) if "/tenants/" in scope["path"] else self._most
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and int(told) > most:
            raise _too_large(most)
        read, whole, end = 0, False, asyncio.get_running_loop().time() + self._seconds
        marks = dict.fromkeys(MARKS, 0)

        async def counted() -> Any:
            nonlocal read, whole
            message = await (receive() if whole else self._by(end + read / SLOWEST, receive))
            whole = not message.get("more_body", False)
            if message["type"] == "http.request":
                part = message.get("body", b"")
                read += len(part)
                if read > most:
                    raise _too_large(most)
                for mark, times in MARKS.items():
                    marks[mark] += part.count(mark)
                    if marks[mark] > times:
                        raise TooLarge("the body has too many values: send less at once.")
            return message

        await self._app(scope, counted, send)

    async def _by(self, end: float, receive: Any) -> Any:
        try:
            async with asyncio.timeout_at(end):
                return await receive()
        except TimeoutError:
            raise TooSlow(f"the body did not come within {self._seconds:g} s: try again.") from None


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body has more than {most:,} bytes: send less at once.")
