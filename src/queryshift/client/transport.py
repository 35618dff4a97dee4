"""Sends calls over HTTP, and again where that may help."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from queryshift.errors import BadInput, Error, missing

from .calls import Call
from .failures import failure, foreign, unreachable
from .retries import Retries

try:
    import httpx
except ImportError as error:
    raise missing("httpx", "client", "the service's client") from error

T = TypeVar("T")


@dataclass(frozen=True)
class Connection:
    """Where the service is, who asks, and how patiently.

    Attributes:
        url: such as "http://127.0.0.1:8000"; a path before /v1 is kept.
        token: sent as a bearer token.
        timeout: seconds for one try.
        retries: how often a call is sent again.
    """

    url: str
    token: str | None
    timeout: float
    retries: Retries

    def options(self) -> dict[str, Any]:
        """The arguments of httpx's clients."""
        if not self.url.startswith(("http://", "https://")):
            raise BadInput(f'"{self.url}" is no address: begin it with http:// or https://.')
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {"base_url": self.url, "headers": headers, "timeout": self.timeout}

    def pause(self, tries: int, outcome: httpx.Response | httpx.TransportError) -> float | None:
        """Seconds before the next try after this outcome, None where it is the last."""
        if isinstance(outcome, httpx.TransportError):
            return self.retries.pause(tries, None)
        asked = outcome.headers.get("Retry-After")
        return self.retries.pause(tries, outcome.status_code, asked)

    def result(self, call: Call[T], outcome: httpx.Response | httpx.TransportError) -> T:
        """What the call reads from the last outcome; raises what went wrong."""
        if isinstance(outcome, httpx.TransportError):
            raise unreachable(self.url, outcome) from outcome
        data = _json_of(outcome)
        if outcome.is_error:
            raise failure(outcome.status_code, data)
        try:
            return call.read(data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, Error):
                raise
            raise foreign(self.url) from error


class Transport:
    """Sends calls one after another."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._http = httpx.Client(**connection.options())

    def send(self, call: Call[T]) -> T:
        """The result of a call; the same request is sent again where no answer came."""
        request = _request(self._http, call)
        for tries in count(1):
            outcome = self._outcome(request)
            pause = self._connection.pause(tries, outcome)
            if pause is None:
                break
            time.sleep(pause)
        return self._connection.result(call, outcome)

    def _outcome(self, request: httpx.Request) -> httpx.Response | httpx.TransportError:
        try:
            return self._http.send(request)
        except httpx.TransportError as error:
            return error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class AsyncTransport:
    """Sends calls from coroutines."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._http = httpx.AsyncClient(**connection.options())

    async def send(self, call: Call[T]) -> T:
        """The result of a call; the same request is sent again where no answer came."""
        request = _request(self._http, call)
        for tries in count(1):
            outcome = await self._outcome(request)
            pause = self._connection.pause(tries, outcome)
            if pause is None:
                break
            await asyncio.sleep(pause)
        return self._connection.result(call, outcome)

    async def _outcome(self, request: httpx.Request) -> httpx.Response | httpx.TransportError:
        try:
            return await self._http.send(request)
        except httpx.TransportError as error:
            return error

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _request(http: httpx.Client | httpx.AsyncClient, call: Call[Any]) -> httpx.Request:
    headers = {} if call.verb == "GET" else {"Idempotency-Key": call.key}
    tenant = str((call.body or {}).get("tenant", ""))
    if tenant.isascii() and tenant.isprintable() and tenant:
        headers["X-Queryshift-Tenant"] = tenant  # by which a proxy finds the tenant's replica
    return http.build_request(
        call.verb, call.path, json=call.body, params=dict(call.params), headers=headers
    )


def _json_of(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None
