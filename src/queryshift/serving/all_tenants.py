"""What the front door needs of those who answer, be they here or on other machines."""

from __future__ import annotations

from typing import Protocol

from .owner import Owner


class AllTenants(Protocol):
    """Every tenant of every collection, wherever its owner is."""

    @property
    def trouble(self) -> str | None:
        """Why the disk cannot be written; None where it can."""

    def names(self) -> list[str]:
        """The collections."""

    def owner(self, collection: str, tenant: str | None = None) -> Owner:
        """Who owns a tenant; without one, who speaks for the collection."""

    def healthy(self) -> bool:
        """Whether all that must run is running."""

    async def counted(self, owner: int) -> bytes:
        """What one of several owners counts, as Prometheus reads it."""

    async def start(self) -> None:
        """Begin."""

    async def stop(self) -> None:
        """End in good order."""
