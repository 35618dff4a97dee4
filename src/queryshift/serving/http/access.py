"""Who may call: pages of this server and of allowed origins, and callers with a token.

Only digests of tokens are known here, compared in constant time.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import SplitResult, urlsplit

from fastapi import Depends
from fastapi.security import HTTPBearer

from queryshift.errors import BadInput

from ..errors import Forbidden, Refused, TooBusy, Unauthorised
from ..metrics import Metrics
from ..settings import Scope, ServeSettings, TokenSettings

# says in OpenAPI that a route takes a token; it is checked before any route is
BEARER = Depends(HTTPBearer(auto_error=False, description="needed where the server has tokens"))

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY_NAME = ("/healthz", "/readyz")  # asked by address, by what watches the process
OPEN = ("/healthz", "/readyz", "/openapi.json", "/")


def check_exposure(settings: ServeSettings) -> None:
    """Refuse to serve more than this machine without tokens."""
    if not settings.tokens and settings.host not in LOOPBACK:
        told = f'host is "{settings.host}", which others can reach, and there are no tokens'
        raise BadInput(f"{told}: add one (queryshift serve --new-token), or serve 127.0.0.1.")


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
            told = f"the token asks more than {self._rate:g} times a second: slow down."
            raise TooBusy(told, (1 - self._left) / self._rate)
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
        tenants = self._tenants(scope, collection)
        return any(tenant is None or _covers(names, tenant) for names in tenants)

    def readable(self, collection: str) -> list[str] | None:
        """The tenants that may be read, by name; None: all."""
        if self.may("read", collection, "*"):
            return None
        return [name for names in self._tenants("read", collection) for name in names]

    def _tenants(self, scope: Scope, collection: str) -> list[list[str]]:
        """The tenants of each entry that grants a scope."""
        granted = (grant for grant in self.grants or () if scope in grant.scopes)
        return [grant.tenants for grant in granted if _covers(grant.collections, collection)]


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


class OriginCheck:
    """Refuses pages of other origins, and names that a page may have been lured here by.

    Without tokens a page of another site could ask a server at the loopback address in the name
    of whoever reads it; the browser sends an Origin header with what it asks for.

    Args:
        app: the application behind it.
        settings: which origins and host names are allowed.
    """

    def __init__(self, app: Any, settings: ServeSettings) -> None:
        self._app, self._origins = app, set(settings.origins)
        named = settings.hosts or ([] if settings.tokens else LOOPBACK)
        self._hosts = {host.lower() for host in named}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse where it comes from."""
        if scope["type"] == "http":
            headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
            self._check(headers, scope["path"])
        await self._app(scope, receive, send)

    def _check(self, headers: dict[str, bytes], path: str) -> None:
        host = headers.get("host", b"").decode("latin-1")
        name = _parsed(f"//{host}").hostname or ""
        if self._hosts and name not in self._hosts and path not in ANY_NAME:
            raise Forbidden(f'"{name}" is no name of this server: the operator sets hosts.')
        origin = headers.get("origin", b"").decode("latin-1")
        if origin and _parsed(origin).netloc != host and origin not in self._origins:
            raise Forbidden(f'pages of "{origin}" may not call: the operator sets origins.')


def _parsed(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as error:
        raise Refused(f'"{address}" is no address ({error}): repair that header.') from None
