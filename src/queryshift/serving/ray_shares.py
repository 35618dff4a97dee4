"""The shares that a process holds, and those of others that it takes over when they fall silent."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress

from queryshift.errors import Error

from .ray_lease import Lease, LeaseLost, LockBusy
from .ray_ring import Ring
from .refusals import OwnerLost
from .settings import ServeSettings
from .sharing import Sharing

STAGGER_S = 0.3  # for each share that is held already: who holds fewer takes first
HEARTBEATS = 8  # within the seconds of a lease
SPARE = 1.5  # times the lease's seconds that a spare waits for a holder it has not seen alive
logger = logging.getLogger("queryshift.serving")


class Shares:
    """Leases of one process, renewed and taken by `hold`.

    Args:
        settings: of the server.
        own: the share that this process is meant for.
        spare: whether it was started again, beside others who hold all shares already.
    """

    def __init__(self, settings: ServeSettings, own: int, spare: bool = False) -> None:
        owners, seconds = settings.ray.owners, settings.ray.lease_seconds
        how = (seconds, own, SPARE * seconds if spare else None)
        self._leases = [Lease(settings.data, share, *how) for share in range(owners)]
        self._ring, self._own, self._seconds = Ring(owners), own, seconds
        self._open: set[int] = set()
        self._told: set[str] = set()  # holders that were found frozen
        self._thread = ThreadPoolExecutor(1, "queryshift-lease")

    @property
    def terms(self) -> dict[int, int]:
        """The shares that are answered for, each with its term."""
        return {share: self._leases[share].term for share in sorted(self._open)}

    def step(self) -> list[int]:
        """Renew what is held and take what is free; the shares that are held and not yet open.

        Raises:
            LeaseLost: another process has taken a share of ours.
        """
        for lease in self._leases:
            if lease.term:
                self._renew(lease)
        for lease in self._leases:
            if not lease.term:
                self._take_if_free(lease)
        held = [lease.share for lease in self._leases if lease.term]
        return [share for share in held if share not in self._open]

    def newly_stuck(self) -> set[int]:
        """Other owners that were frozen with the lock of a share, each told once."""
        stuck = {
            lease.stuck["holder"]: lease.stuck["owner"] for lease in self._leases if lease.stuck
        }
        new = {owner for holder, owner in stuck.items() if holder not in self._told}
        self._told |= stuck.keys()
        return new - {self._own}

    def _renew(self, lease: Lease) -> None:
        """Write a heartbeat; a share that is locked must not cost the others: it runs out."""
        try:
            lease.renew()
        except LockBusy as error:
            logger.warning("%s", error)

    def _take_if_free(self, lease: Lease) -> None:
        """Take a share that nobody holds; one whose files are damaged must not cost the others."""
        try:
            if lease.free(lease.share == self._own, STAGGER_S * self._held):
                lease.take()
        except (Error, OSError, ValueError):
            logger.exception("share %d was not taken", lease.share)

    async def hold(
        self, know_own: Callable[[], Awaitable[None]], end: Callable[[int], None]
    ) -> None:
        """Renew leases and take over shares until cancelled; without its leases a process ends.

        Args:
            know_own: reads which tenants are in the shares that are held. It may take longer than
                a lease lasts: leases are renewed meanwhile.
            end: ends the process of another owner, by its number: one that was frozen with the
                lock of its share in hand lets go of it only then.
        """
        loop, opening, ends = asyncio.get_running_loop(), None, list[asyncio.Task[None]]()
        while True:
            try:
                closed = await loop.run_in_executor(self._thread, self.step)
                if closed and (opening is None or opening.done()):
                    opening = asyncio.create_task(self._open_all(closed, know_own))
                ends += [asyncio.create_task(_end(end, owner)) for owner in self.newly_stuck()]
            except LeaseLost as error:
                logger.error("this owner was taken for dead and ends: %s", error)
                os._exit(1)
            except Exception:  # a disk that cannot be read: the leases run out by themselves
                logger.exception("leases were not renewed")
            await asyncio.sleep(self._seconds / HEARTBEATS)

    async def _open_all(
        self, closed: Sequence[int], know_own: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            await know_own()
        except Exception:  # they stay closed, and the next step tries again
            logger.exception("the tenants of shares %s were not read", closed)
            return
        for share in closed:
            logger.warning("share %d is held here now, term %d", share, self.open(share))

    def open(self, share: int) -> int:
        """Answer for a share from now on; its term."""
        self._open.add(share)
        return self._leases[share].term

    async def give_back(self) -> None:
        """Release all shares, after a step that is under way."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._release)

    def _release(self) -> None:
        for lease in self._leases:
            if lease.term:
                self._open.discard(lease.share)
                with suppress(LeaseLost, LockBusy):  # then it is another's, or runs out
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


async def _end(end: Callable[[int], None], owner: int) -> None:
    """End a frozen owner; leases are renewed meanwhile."""
    logger.error("owner %d is frozen with a lock in hand, and is ended", owner)
    try:
        await asyncio.to_thread(end, owner)
    except Exception:  # others try it too
        logger.exception("owner %d was not ended", owner)


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
