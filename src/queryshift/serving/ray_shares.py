"""The shares that a process holds, and those of others that it takes over when they fall silent."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from .ray_lease import Lease
from .ray_ring import Ring
from .refusals import OwnerLost
from .settings import ServeSettings
from .sharing import Sharing

STAGGER_S = 0.3  # for each share that is held already: who holds fewer takes first


class Shares:
    """Leases of one process; `step` is called again and again.

    Args:
        settings: of the server.
        own: the share that this process is meant for.
    """

    def __init__(self, settings: ServeSettings, own: int) -> None:
        owners, seconds = settings.ray.owners, settings.ray.lease_seconds
        self._leases = [Lease(settings.data, share, seconds) for share in range(owners)]
        self._ring, self._own = Ring(owners), own
        self._open: set[int] = set()

    @property
    def terms(self) -> dict[int, int]:
        """The shares that are answered for, each with its term."""
        return {share: self._leases[share].term for share in sorted(self._open)}

    def step(self) -> list[int]:
        """Renew what is held and take what is free; the shares that were taken, not yet open.

        Raises:
            LeaseLost: another process has taken a share of ours.
        """
        taken = []
        for lease in self._leases:
            if lease.term:
                lease.renew()
            elif lease.free(lease.share == self._own, STAGGER_S * self._held) and lease.take():
                taken.append(lease.share)
        return taken

    def open(self, share: int) -> int:
        """Answer for a share from now on; its term."""
        self._open.add(share)
        return self._leases[share].term

    def release(self) -> None:
        """Give all shares back."""
        for lease in self._leases:
            if lease.term:
                self._open.discard(lease.share)
                lease.release()

    def lease(self, collection: str, tenant: str) -> Lease:
        """The lease of the share that a tenant is in."""
        return self._leases[self._ring.owner(collection, tenant)]

    def answers_for(self, collection: str, tenant: str) -> bool:
        """Whether a tenant's share is held here, for certain."""
        lease = self.lease(collection, tenant)
        return lease.share in self._open and lease.held

    @property
    def _held(self) -> int:
        return sum(lease.term > 0 for lease in self._leases)


class RaySharing(Sharing):
    """The tenants of one collection that are in the shares of a process.

    Args:
        shares: what the process holds.
        collection: its name.
    """

    def __init__(self, shares: Shares, collection: str) -> None:
        self._shares, self._collection = shares, collection

    def owns(self, tenant: str) -> bool:
        """Whether a tenant's share is held here, as far as is known."""
        return self._shares.lease(self._collection, tenant).term > 0

    def marks(self, tenant: str) -> Mapping[str, int]:
        """Its share and the term in which a row was learnt."""
        lease = self._shares.lease(self._collection, tenant)
        return {"owner": lease.share, "term": lease.term}

    def check(self, tenant: str) -> None:
        """Refuse what is asked while the share may be another's."""
        if not self._shares.answers_for(self._collection, tenant):
            raise OwnerLost(f'"{tenant}" is not held here: its share has moved or is moving.')

    def committing(self, tenant: str) -> AbstractContextManager[None]:
        """Under the lease's lock, after a look at who holds it."""
        return self._shares.lease(self._collection, tenant).committing()
