"""Bodies over the limit are refused before they are read into memory; slow ones too."""

from __future__ import annotations

import asyncio
from typing import Any

from .refusals import TooLarge, TooSlow


class BodyLimit:
    """Counts the bytes of a request's body, whatever its headers say, and the time it takes.

    Args:
        app: the application behind it.
        most: bytes of a body.
        seconds: that each part of it may take to come.
    """

    def __init__(self, app: Any, most: int, seconds: float) -> None:
        self._app, self._most, self._seconds = app, most, seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, counting what is read of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        told = headers.get(b"content-length", b"0")
        if told.isdigit() and int(told) > self._most:
            raise self._refusal()
        read, whole = 0, False

        async def counted() -> Any:
            nonlocal read, whole
            message = await (receive() if whole else self._in_time(receive))
            whole = not message.get("more_body", False)
            if message["type"] == "http.request":
                read += len(message.get("body", b""))
                if read > self._most:
                    raise self._refusal()
            return message

        await self._app(scope, counted, send)

    async def _in_time(self, receive: Any) -> Any:
        try:
            async with asyncio.timeout(self._seconds):
                return await receive()
        except TimeoutError:
            raise TooSlow(f"the body did not come within {self._seconds:g} s: try again.") from None

    def _refusal(self) -> TooLarge:
        return TooLarge(f"the body has more than {self._most:,} bytes: send less at once.")
