"""Bodies over the limit are refused before they are read into memory."""

from __future__ import annotations

from typing import Any

from .refusals import TooLarge


class BodyLimit:
    """Counts the bytes of a request's body, whatever its headers say.

    Args:
        app: the application behind it.
        most: bytes of a body.
    """

    def __init__(self, app: Any, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, counting what is read of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        told = headers.get(b"content-length", b"0")
        if told.isdigit() and int(told) > self._most:
            raise self._refusal()
        read = 0

        async def counted() -> Any:
            nonlocal read
            message = await receive()
            if message["type"] == "http.request":
                read += len(message.get("body", b""))
                if read > self._most:
                    raise self._refusal()
            return message

        await self._app(scope, counted, send)

    def _refusal(self) -> TooLarge:
        return TooLarge(f"the body has more than {self._most:,} bytes: send less at once.")
