"""Bearer tokens: only their digests are known here, compared in constant time."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from ..errors import Unauthorised
from ..settings import Scope, TokenSettings
from .rates import Rate


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

    def check_rate(self) -> None:
        """Refuse a token that asks too often."""
        for rate in self.rates:
            rate.take()


ANYBODY = Caller("", None)


class Tokens:
    """The tokens that are known; several entries of one digest add up.

    Args:
        settings: the entries of the file.
    """

    def __init__(self, settings: Sequence[TokenSettings]) -> None:
        self._callers: dict[str, Caller] = {}
        for one in settings:
            grants = [other for other in settings if other.sha256 == one.sha256]
            rates = [Rate(grant.rate, grant.burst) for grant in grants if grant.rate is not None]
            self._callers.setdefault(one.sha256, Caller(one.name, grants, rates))

    def caller(self, header: str) -> Caller:
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
