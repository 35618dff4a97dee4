"""Bearer tokens, looked at before anything else of a request is read.

Only their digests are known here, compared in constant time.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from fastapi import Depends
from fastapi.security import HTTPBearer

from ..errors import TooBusy, Unauthorised
from ..metrics import Metrics
from ..settings import Scope, ServeSettings, TokenSettings

BEARER = Depends(HTTPBearer(auto_error=False, description="needed where the server has tokens"))
"""Says in OpenAPI that a route takes a token; it is checked before any route is."""

OPEN = ("/healthz", "/readyz", "/openapi.json", "/")


class Rate:
    """A bucket of `burst` requests, filled at `rate` a second.

    Args:
        rate: requests a second.
        burst: requests at once.

    Example:
        >>> bucket = Rate(1, burst=2)
        >>> bucket.take(), bucket.take()
        (None, None)
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._filled = float(burst), time.monotonic()

    def take(self) -> None:
        """Take one request out, or refuse it with when to come back."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._filled) * self._rate)
        self._filled = now
        if self._left < 1:
            raise TooBusy(
                f"the token asks more than {self._rate:g} times a second: slow down.",
                (1 - self._left) / self._rate,
            )
        self._left -= 1


@dataclass(frozen=True)
class Caller:
    """Who calls, and what they may do: everything, where no tokens are set.

    Attributes:
        name: of the token.
        grants: what its entries in the file allow.
        rates: how often it may ask.
    """

    name: str
    grants: Sequence[TokenSettings] | None
    rates: Sequence[Rate] = ()

    def may(self, scope: Scope, collection: str, tenant: str | None = None) -> bool:
        """Whether a scope is granted.

        Args:
            scope: what is to be done.
            collection: where; "*" is all of them.
            tenant: whose; "*" is everybody's, None what belongs to no tenant.
        """
        if self.grants is None:
            return True
        return any(
            scope in grant.scopes
            and _covers(grant.collections, collection)
            and (tenant is None or _covers(grant.tenants, tenant))
            for grant in self.grants
        )

    def readable(self, collection: str) -> list[str] | None:
        """The tenants that may be read, by name; None: all."""
        if self.may("read", collection, "*"):
            return None
        return [
            name
            for grant in self.grants or ()
            if "read" in grant.scopes and _covers(grant.collections, collection)
            for name in grant.tenants
        ]


ANYBODY = Caller("", None)


class TokenCheck:
    """Refuses callers without a known token, or who ask too often; notes who calls.

    Several entries of one digest add up.

    Args:
        app: the application behind it.
        settings: with the tokens.
        metrics: what is counted.
    """

    def __init__(self, app: Any, settings: ServeSettings, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics
        self._open = (*OPEN, "/metrics") if settings.open_metrics else OPEN
        self._callers: dict[str, Caller] = {}
        for one in settings.tokens:
            grants = [other for other in settings.tokens if other.sha256 == one.sha256]
            rates = [Rate(grant.rate, grant.burst) for grant in grants if grant.rate is not None]
            self._callers.setdefault(one.sha256, Caller(one.name, grants, rates))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on with its caller, or refuse it."""
        path = scope.get("path", "")
        if scope["type"] == "http" and path not in self._open and not path.startswith("/page/"):
            header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
            caller = scope["state"]["caller"] = self._caller(header)
            try:
                for rate in caller.rates:
                    rate.take()
            except TooBusy:
                self._metrics.refused.labels("rate").inc()
                raise
        await self._app(scope, receive, send)

    def _caller(self, header: str) -> Caller:
        """Who sent this Authorization header."""
        if not self._callers:
            return ANYBODY
        kind, _, token = header.partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Unauthorised("a token is needed: send the header Authorization: Bearer TOKEN.")
        given, found = digest(token.strip()), None
        for known, caller in self._callers.items():  # all of them, so that none is told by time
            if hmac.compare_digest(given, known):
                found = caller
        if found is None:
            raise Unauthorised("the token is not known here: ask the operator for one.")
        return found


def digest(token: str) -> str:
    """What the file has of a token."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(32)


def _covers(names: Sequence[str], name: str) -> bool:
    return "*" in names or name in names
