"""Which tenants of a collection are in memory: the least recently used go to disk and come back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile, Error
from queryshift.sessions.session import Session

from .collection import Collection
from .disk import Disk
from .json_values import iso
from .metrics import Metrics
from .record import Record
from .refusals import Forbidden, NotFound
from .settings import TenantSettings
from .sharing import Sharing
from .tenant import Tenant
from .tenant_files import TenantFiles

FAILED_SAVES = 8  # of tenants in a row of them: the disk itself is taken to be in trouble
logger = logging.getLogger("queryshift.serving")


class Residents:
    """The tenants of one collection; everything but reading and writing runs in the event loop.

    Args:
        collection: gives the collection as it is now.
        folder: where tenants are written.
        settings: how many are in memory, and when they are written.
        disk: writes.
        metrics: what is counted.

    Attributes:
        loaded: those in memory, the least recently used first.
        sharing: which tenants are ours.
    """

    def __init__(
        self,
        collection: Callable[[], Collection],
        folder: Path,
        settings: TenantSettings,
        disk: Disk,
        metrics: Metrics,
    ) -> None:
        self._collection, self._folder, self._settings = collection, folder, settings
        self._disk, self._metrics, self.sharing = disk, metrics, Sharing()
        self.loaded: OrderedDict[str, Tenant] = OrderedDict()
        self._loading: dict[str, asyncio.Task[Tenant]] = {}
        self._evicting: dict[str, asyncio.Task[None]] = {}
        self._saves: set[asyncio.Task[None]] = set()  # under way
        self._wanted = Counter[str]()  # by those who wait until they are in memory
        self._known = {record.tenant: _summary(record) for record in self._records()}
        self._count()

    @asynccontextmanager
    async def using(self, name: str, create: bool = False) -> AsyncIterator[Tenant]:
        """A tenant that stays in memory for the block; one that is not known may be made."""
        tenant = self.loaded.get(name)
        if tenant is None:
            self._wanted[name] += 1
            try:
                tenant = await self._brought(name, create)
            finally:
                self._wanted -= Counter((name,))
        tenant.in_use += 1
        try:
            self.loaded.move_to_end(name)
            self._renew(tenant)
            yield tenant
        finally:
            tenant.in_use -= 1
            if tenant.in_use == 0 and self._disk.trouble is None:
                self._make_room()  # those who came while it was in use found none to send away

    def listed(self, after: str, limit: int, among: Sequence[str] | None) -> list[dict[str, Any]]:
        """Tenants by name, those behind `after`; only those `among` these names, if given."""
        for tenant in self.loaded.values():
            self._known[tenant.name] = _summary(tenant.record)
        known = self._known if among is None else self._known.keys() & set(among)
        names = sorted(name for name in known if name > after)
        return [self._known[name] for name in names[:limit]]

    async def know_own(self) -> None:
        """Know the tenants that are ours now, and no others."""
        records = await asyncio.to_thread(self._records)
        found = {record.tenant: _summary(record) for record in records}
        found |= self._known  # made and sent to disk, perhaps, while they were read
        found |= {name: _summary(tenant.record) for name, tenant in self.loaded.items()}
        self._known = {name: known for name, known in found.items() if self.sharing.owns(name)}
        self._count()

    def __len__(self) -> int:
        return len(self._known)

    async def save(self, tenant: Tenant) -> None:
        """Write what has changed of a tenant: state and record, then rows of its history.

        One write at a time; one that has begun is finished, though who waits for it be cancelled.
        """
        writing = asyncio.create_task(self._save_once(tenant))
        self._saves.add(writing)
        writing.add_done_callback(self._saves.discard)
        await asyncio.shield(writing)

    async def _save_once(self, tenant: Tenant) -> None:
        async with tenant.saving:
            if tenant.changed_at is not None:
                await self._save(tenant)

    async def _save(self, tenant: Tenant) -> None:
        state, record = tenant.session.snapshot(history=False), tenant.record.written()
        learnt_more = state.state is not tenant.saved_state
        rows, since = list(tenant.unwritten), tenant.changed_at
        learnt, tenant.learnt_since_save, tenant.changed_at = tenant.learnt_since_save, 0, None
        try:
            kept = state if learnt_more else None
            await self._disk.write(_write, tenant.files, record, kept, rows, self._settings.history)
        except BaseException:  # whatever it was: what is not on disk has still changed
            tenant.changed_at = since or time.monotonic()
            tenant.learnt_since_save += learnt
            raise
        tenant.saved_state = state.state
        tenant.written(rows[-1]["batch"] if rows else 0)

    async def save_due(self, all_changed: bool = False) -> None:
        """Write the tenants whose time has come, or all that have changed; not only one of them."""
        failed = 0
        for tenant in list(self.loaded.values()):
            if (all_changed or self._is_due(tenant)) and not await self._saved(tenant):
                failed += 1
                if failed == FAILED_SAVES and not all_changed:
                    return  # the next would fail too; tried again in a while

    async def _saved(self, tenant: Tenant) -> bool:
        try:
            await self.save(tenant)
        except BadFile:
            return False
        except Exception:  # a bug of ours must not keep others from being written
            logger.exception("a tenant was not written", extra={"tenant": tenant.name})
            return False
        return True

    def _is_due(self, tenant: Tenant) -> bool:
        if tenant.changed_at is None:
            return False
        aged = time.monotonic() - tenant.changed_at >= self._settings.save_seconds
        return aged or tenant.learnt_since_save >= self._settings.save_batches

    async def _brought(self, name: str, create: bool) -> Tenant:
        """A tenant into memory, read once however many ask for it."""
        if not create and name not in self._known:
            raise NotFound(f'there is no tenant "{name}": a search makes one.')
        if name not in self._loading:
            self._check_room_for(name)
            self._loading[name] = asyncio.create_task(self._load(name))
        return await asyncio.shield(self._loading[name])

    def _check_room_for(self, name: str) -> None:
        """Refuse a new tenant where there are as many as may be, those being made among them."""
        known = len(self._known) + sum(one not in self._known for one in self._loading)
        if name not in self._known and known >= self._settings.known:
            raise Forbidden(f"there are {known:,} tenants, as many as may be: raise tenants.known.")

    async def _load(self, name: str) -> Tenant:
        try:
            files = TenantFiles(self._folder, name, partial(self.sharing.committing, name))
            collection = self._collection()
            tenant = await asyncio.to_thread(_loaded, collection, files, name)
            if name in self._known:
                self._metrics.loads.labels(collection.name).inc()
            self.loaded[name] = tenant
            self._known[name] = _summary(tenant.record)
            self._make_room()
            self._count()
            return tenant
        finally:
            del self._loading[name]

    def _make_room(self) -> None:
        """Send the least recently used to disk, beside what is being answered."""
        surplus = len(self.loaded) - len(self._evicting) - self._settings.loaded
        if surplus <= 0:
            return
        idle = (
            tenant
            for name, tenant in self.loaded.items()
            if tenant.in_use == 0 and name not in self._evicting and name not in self._wanted
        )
        for tenant in list(islice(idle, surplus)):
            self._evicting[tenant.name] = asyncio.create_task(self._evict(tenant))

    async def _evict(self, tenant: Tenant) -> None:
        try:
            if tenant.changed_at is not None:
                await self.save(tenant)
            if tenant.in_use == 0 and tenant.changed_at is None:
                self._known[tenant.name] = _summary(tenant.record)
                del self.loaded[tenant.name]
                tenant.session.on_event = None  # else the two hold each other until Python looks
                self._metrics.evictions.labels(self._collection().name).inc()
        except BadFile:
            pass  # it stays in memory: nothing is lost while the disk is full
        finally:
            del self._evicting[tenant.name]
            self._count()

    def _renew(self, tenant: Tenant) -> None:
        """Give a tenant a session of the collection as it is now, with what was learnt."""
        collection = self._collection()
        if tenant.made_for is not collection and not tenant.changes:
            session = collection.session(name=tenant.name)
            session.restore(tenant.session.state, tenant.session.history)
            session.on_event = tenant.note
            tenant.session, tenant.made_for = session, collection

    def _records(self) -> list[Record]:
        found = []
        for path in self._folder.glob("*/tenant.json"):
            try:
                found.append(Record.read(path.read_text(encoding="utf-8")))
            except (BadFile, OSError) as error:
                logger.warning('"%s" is passed over: %s', path, error)
        return found

    def _count(self) -> None:
        name = self._collection().name
        self._metrics.loaded.labels(name).set(len(self.loaded))
        self._metrics.known.labels(name).set(len(self._known))


def _write(
    files: TenantFiles, record: str, state: Any, rows: list[dict[str, Any]], most: int
) -> None:
    files.save(record, state)
    if rows:
        files.append_history(rows, most)


def _loaded(collection: Collection, files: TenantFiles, name: str) -> Tenant:
    """A tenant as its files have it; a new one without files."""
    record = files.read_record() or Record(name, collection.settings.mode, created=time.time())
    tenant = Tenant(
        loaded_session(collection, files.state, name),
        record,
        files,
        made_for=collection,
        keep=collection.settings.keep_queries,
        drops_told=record.drops,
    )
    tenant.session.on_event = tenant.note
    if files.state.exists():
        tenant.saved_state = tenant.session.state
    return tenant


def loaded_session(collection: Collection, path: Path, name: str) -> Session:
    """The session of a file; a fresh one where there is none, or where it no longer fits."""
    if not path.exists():
        return collection.session(name=name)
    try:
        session = Session.load(
            path, collection.encoder, collection.gallery, **collection.session_settings, name=name
        )
    except Error as error:
        logger.warning('tenant "%s" starts anew: %s', name, error)
        return collection.session(name=name)
    if session.method.name != collection.method.name:
        logger.warning('tenant "%s" starts anew: its state is of %s', name, session.method.name)
        return collection.session(name=name)
    return session


def _summary(record: Record) -> dict[str, Any]:
    return {
        "tenant": record.tenant,
        "mode": record.mode,
        "queries": record.queries,
        "last_seen": iso(record.last_seen),
    }
