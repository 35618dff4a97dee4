"""Whose tenants they are: all this process's own, or those of the shares that it holds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext


class Sharing:
    """Every tenant of a collection is this process's own."""

    def owns(self, tenant: str) -> bool:
        """Whether a tenant is ours."""
        return True

    def marks(self, tenant: str) -> Mapping[str, int]:
        """What each row of its history says of who learnt it."""
        return {}

    def check(self, tenant: str) -> None:
        """Refuse what is asked of a tenant that is no longer ours."""

    def committing(self, tenant: str) -> AbstractContextManager[None]:
        """Held while a file of its takes the place of the former one; refused when not ours."""
        return nullcontext()
