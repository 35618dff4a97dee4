"""Which tenants of a collection are in memory: read from the store, written back, followed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count, islice
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

from queryshift.sessions.session import Session
from queryshift.sessions.state import State

from .answering.learning_queue import Dropped
from .clicks import RecentAnswers
from .collection import Collection, Current
from .errors import Conflict, Forbidden, NotFound, StoreTrouble
from .runtime import Runtime
from .settings import Mode
from .store.snapshot_rows import SnapshotRows
from .store.stored_tenant import Change, Gone, Stale, StoredTenant
from .store.tenant_rows import TenantRows
from .tenant import Tenant, session_of

FAILED_SAVES = 8  # of tenants in a row of them: the store itself is taken to be in trouble
TRIES = 5  # of an operator's change against other processes that learn
CONTENDED_S = 60.0  # after another process learnt, in which each batch is written at once
logger = logging.getLogger("queryshift.serving")
Value = TypeVar("Value")
Work: TypeAlias = Callable[[], None] | None


class TenantCache:
    """The tenants of one collection; everything but reading and writing runs in the event loop.

    Args:
        collection: gives the collection as it is now.
        runtime: what the process has.
        deleted: is told the name of each tenant that was deleted.

    Attributes:
        rows: the stored tenants.
        snapshots: the stored snapshots.
        loaded: tenants in memory, the least recently used first.
    """

    def __init__(self, collection: Current, runtime: Runtime, deleted: Dropped) -> None:
        self._collection, self._settings = collection, runtime.settings.tenants
        self._deleted = deleted
        self._writer, self._learner = runtime.writer, runtime.learner
        self._metrics, name = runtime.metrics, collection().name
        self.rows = TenantRows(runtime.store, name)
        self.snapshots = SnapshotRows(runtime.store)
        self.loaded: OrderedDict[str, Tenant] = OrderedDict()
        self._loading: dict[tuple[str, bool], asyncio.Task[None]] = {}
        self._saves: set[asyncio.Task[Any]] = set()  # under way
        self._process, self._numbers = uuid4().hex[:16], count()  # name changes
        self._metrics.loaded.labels(name).set_function(lambda: len(self.loaded))
        self._known = self._metrics.known.labels(name)
        self._known.set(self.rows.count())

    @asynccontextmanager
    async def using(self, name: str, create: bool = False) -> AsyncIterator[Tenant]:
        """A tenant that stays in memory for the block; one that is not known may be made."""
        while (tenant := self.loaded.get(name)) is None:
            if (name, create) not in self._loading:  # once, however many ask for it
                self._loading[name, create] = asyncio.create_task(self._load(name, create))
            await asyncio.shield(self._loading[name, create])
        tenant.in_use += 1
        try:
            self.loaded.move_to_end(name)
            self._renew(tenant)
            yield tenant
        finally:
            tenant.in_use -= 1

    async def change(self, tenant: Tenant, work: Callable[..., Value], *args: Any) -> Value:
        """What work gives that changes a tenant's session: one after another, as it was asked."""
        loop = asyncio.get_running_loop()
        tenant.changes += 1
        try:
            changing = partial(_changed, tenant.session, work, *args)
            value, state = await loop.run_in_executor(self._learner, changing)
        finally:
            tenant.changes -= 1
        tenant.settle(state)
        return value

    async def save(self, tenant: Tenant) -> None:
        """Write what has changed of a tenant, in one transaction.

        One write at a time; one that has begun is finished, though who waits for it be cancelled.
        """
        await self._finished(self._save_once(tenant))

    async def carry_out(self, tenant: Tenant, mode: Mode | None, work: Work = None) -> None:
        """Make an operator's change, and write it before this returns; or leave all as it was.

        Where another process has changed the tenant, the change is made again on what that left.

        Args:
            tenant: the tenant.
            mode: its new mode, if it has one.
            work: changes its session, if that is to be changed.
        """
        await self._finished(self._carry_out(tenant, mode, work))

    async def _finished(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._saves.add(task)
        task.add_done_callback(self._saves.discard)
        await asyncio.shield(task)

    async def _save_once(self, tenant: Tenant) -> None:
        async with tenant.saving:
            if tenant.changed_at is not None:
                await self._save(tenant)

    async def _carry_out(self, tenant: Tenant, mode: Mode | None, work: Work) -> None:
        async with tenant.saving:
            for _ in range(TRIES):
                before, state, attempt = tenant.record.mode, tenant.session.state, tenant.attempt
                tenant.record.mode = mode or before
                if work is not None:
                    await self.change(tenant, work)
                try:
                    if await self._save(tenant, told=True):
                        return
                except StoreTrouble:
                    tenant.record.mode, tenant.attempt = before, attempt
                    await self.change(tenant, tenant.session.restore, state)
                    raise
        raise Conflict("other processes change this tenant all the time: ask again.")

    async def _save(self, tenant: Tenant, told: bool = False) -> bool:
        """Write all that has changed; whether what was learnt or changed here is in force."""
        if not await self._send_again(tenant):
            return False
        token = f"{self._process}-{next(self._numbers):09}"
        change = tenant.unsaved(token, self._settings.history, told)
        return await self._send(tenant, change)

    async def _send_again(self, tenant: Tenant) -> bool:
        """Settle a change of which nobody knows whether it was made; whether it is in force."""
        if tenant.attempt is None:
            return True
        made = await self._send(tenant, tenant.attempt)
        tenant.changed()  # what came after it is not stored
        return made

    async def _send(self, tenant: Tenant, change: Change) -> bool:
        since, learnt = tenant.changed_at, tenant.learnt_since_save
        tenant.changed_at, tenant.learnt_since_save, tenant.attempt = None, 0, change
        try:
            version = await self._commit(tenant, change)
        except Stale:
            await self._lose(tenant, change)
            return False
        except BaseException:  # whatever it was: what is not stored has still changed
            tenant.changed_at = since or time.monotonic()
            tenant.learnt_since_save += learnt
            raise
        tenant.attempt = None
        tenant.committed(change, version)
        return True

    async def _lose(self, tenant: Tenant, change: Change) -> None:
        """Drop what was learnt on a version that another process has replaced, and count it."""
        counted = change.counted_only()
        tenant.changed_at, tenant.attempt = time.monotonic(), counted
        tenant.committed(counted, await self._commit(tenant, counted))
        tenant.attempt = None
        await self._reload(tenant)

    async def _commit(self, tenant: Tenant, change: Change) -> int:
        try:
            return await self._writer.write(self.rows.commit, change)
        except Gone:
            self._drop(tenant)
            raise

    async def look(self, tenant: Tenant) -> None:
        """Take over what other processes have stored of a tenant, counts too."""
        if self.rows.shared:
            async with tenant.saving:
                await self._reload(tenant)

    async def may_learn(self, tenant: Tenant) -> bool:
        """Take over what other processes have learnt, before more is learnt on top of it.

        False where they have frozen or deleted the tenant.
        """
        if self.rows.shared:
            with suppress(StoreTrouble, Gone):  # it learns on what it knows
                async with tenant.saving:
                    found = await asyncio.to_thread(self.rows.versions, [tenant.id])
                    if found.get(tenant.id) != tenant.seen:
                        await self._reload(tenant)
        return self.holds(tenant) and tenant.record.mode != "frozen"

    async def follow(self) -> None:
        """Look at the versions of all tenants in memory, and take over what has changed."""
        loaded = {tenant.id: tenant for tenant in self.loaded.values()}
        if not loaded:
            return
        versions = await asyncio.to_thread(self.rows.versions, list(loaded))
        for id, tenant in loaded.items():
            if versions.get(id) != tenant.seen and not tenant.saving.locked():
                with suppress(Gone):
                    async with tenant.saving:
                        await self._reload(tenant)

    async def _reload(self, tenant: Tenant) -> None:
        """Take over a tenant as it is stored; what was learnt on a version before is dropped."""
        await self._send_again(tenant)
        stored = await asyncio.to_thread(self.rows.read, tenant.id)
        if stored is None:
            self._drop(tenant)
            return
        if stored.version != tenant.seen:
            tenant.record.mode = stored.record.mode  # at once, whatever the learner is at
            await self.change(tenant, self._restore, tenant, stored)
            tenant.contended_until = time.monotonic() + CONTENDED_S
        if lost := tenant.follow(stored):
            self._metrics.lost_updates.labels(self._collection().name).inc(lost)
            tenant.changed()

    def _restore(self, tenant: Tenant, stored: StoredTenant) -> None:
        session = session_of(stored, tenant.made_for, self.snapshots)
        tenant.session.restore(session.state)

    async def delete(self, name: str) -> bool:
        """Delete a tenant and all that is stored of it; whether there was one."""
        there = await self._writer.write(self.rows.delete, name)
        if (tenant := self.loaded.get(name)) is not None:
            self._drop(tenant)
        self._deleted(name)
        self._known.dec(there)
        return there

    def _drop(self, tenant: Tenant) -> None:
        """Forget a tenant that was deleted."""
        if self.holds(tenant):
            del self.loaded[tenant.name]
            self._deleted(tenant.name)
        tenant.changed_at = tenant.attempt = tenant.session.on_event = None
        tenant.answers = RecentAnswers()
        tenant.latest.clear()

    async def save_due(self, all_changed: bool = False) -> None:
        """Write the tenants whose time has come, or all that have changed; not only one of them."""
        failed = 0
        for tenant in list(self.loaded.values()):
            if (all_changed or self._is_due(tenant)) and not await self._saved(tenant):
                failed += 1
                if failed == FAILED_SAVES and (self.rows.shared or not all_changed):
                    return  # the next would fail too; tried again in a while

    async def save_if_shared(self, tenant: Tenant) -> None:
        """Write a batch at once where other processes may learn the same tenant.

        That is where they did so lately, and with its first batch, from which they then go on.
        """
        first = self.rows.shared and tenant.record.batches == 1
        if first or tenant.contended_until > time.monotonic():
            await self._saved(tenant)

    async def _saved(self, tenant: Tenant) -> bool:
        try:
            await self.save(tenant)
            return True
        except (StoreTrouble, NotFound):
            return False
        except Exception:  # a bug of ours must not keep others from being written
            logger.exception("a tenant was not written", extra={"tenant": tenant.name})
            return False

    def _is_due(self, tenant: Tenant) -> bool:
        if tenant.changed_at is None:
            return False
        now = time.monotonic()
        most = 1 if now < tenant.contended_until else self._settings.save_batches
        aged = now - tenant.changed_at >= self._settings.save_seconds
        return aged or tenant.learnt_since_save >= most

    async def _load(self, name: str, create: bool) -> None:
        try:
            collection = self._collection()
            tenant, new = await asyncio.to_thread(self._loaded, collection, name, create)
            self._known.inc(new)
            if name not in self.loaded:
                self.loaded[name] = tenant
                self._metrics.loads.labels(collection.name).inc(not new)
        finally:
            del self._loading[name, create]

    def _loaded(self, collection: Collection, name: str, create: bool) -> tuple[Tenant, bool]:
        """A tenant as it is stored, and whether it was made just now."""
        stored, most = self.rows.find(name), self._settings.known
        if new := stored is None:
            if not create:
                raise NotFound(f'there is no tenant "{name}": a search makes one.')
            stored = self.rows.make(name, collection.settings.mode, most)
        if stored is None:
            raise Forbidden(f"there are {most:,} tenants, as many as may be: raise tenants.known.")
        tenant = Tenant(stored, session_of(stored, collection, self.snapshots), collection)
        other = stored.saved_by and not stored.saved_by.startswith(self._process)
        if self.rows.shared and other:
            left = stored.record.last_seen + CONTENDED_S - time.time()  # others ask it too
            tenant.contended_until = time.monotonic() + left
        return tenant, new

    async def evict(self) -> None:
        """Send the least recently used to the store, if too many are in memory."""
        idle = (tenant for tenant in self.loaded.values() if tenant.in_use == 0)
        for tenant in list(islice(idle, max(0, len(self.loaded) - self._settings.loaded))):
            await self._saved(tenant)  # or it stays: nothing is lost while the disk is full
            if self.holds(tenant) and tenant.in_use == 0 and tenant.changed_at is None:
                del self.loaded[tenant.name]
                tenant.session.on_event = None  # else the two hold each other until Python looks
                self._metrics.evictions.labels(self._collection().name).inc()

    def _renew(self, tenant: Tenant) -> None:
        """Give a tenant a session of the collection as it is now, with what was learnt."""
        collection = self._collection()
        if tenant.made_for is not collection and not tenant.changes:
            session = collection.session(name=tenant.name)
            session.restore(tenant.session.state, tenant.session.history)
            session.on_event = tenant.note
            tenant.session, tenant.made_for = session, collection

    def holds(self, tenant: Tenant) -> bool:
        """Whether a tenant is in memory, and was not deleted."""
        return self.loaded.get(tenant.name) is tenant

    async def known(self) -> int:
        """How many tenants there are."""
        count = await asyncio.to_thread(self.rows.count)
        self._known.set(count)
        return count


def _changed(session: Session, work: Callable[..., Value], *args: Any) -> tuple[Value, State]:
    """What work gives, and the state that it left the session in."""
    value = work(*args)
    return value, session.state
