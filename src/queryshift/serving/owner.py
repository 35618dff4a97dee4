"""The one owner of a collection's tenants: everything that is asked of them goes through here."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile, BadInput
from queryshift.galleries.hits import Id
from queryshift.sessions.ordinary import Ordinary
from queryshift.sessions.session import Session

from .calls import SearchCall
from .clicks import Clicks
from .collection import Collection
from .corrupting import corrupted
from .disk import Disk
from .json_values import iso
from .queries import Raw, decoded
from .refusals import Conflict, DiskFull, Forbidden, NotFound
from .searching import Searching
from .settings import Mode
from .sharing import Sharing
from .tenant import Tenant
from .tenant_files import write_text

AT_ONCE = 8  # samples that are made
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")


class Owner:
    """Tenants of one collection, in one process: answers, reports and what an operator does.

    Its methods take and give values that can cross processes, so that a distributed server may
    hold owners elsewhere.

    Args:
        searching: answers and learns for the collection's tenants.
        folder: where the collection is written.
        disk: writes.
        snapshots: how many a tenant may have.
    """

    def __init__(self, searching: Searching, folder: Path, disk: Disk, snapshots: int) -> None:
        self._searching, self._residents = searching, searching.residents
        self._folder, self._disk, self._most_snapshots = folder, disk, snapshots

    @property
    def collection(self) -> Collection:
        """The collection as it is now."""
        return self._searching.collection

    def share(self, sharing: Sharing) -> None:
        """Own only some of the tenants."""
        self._residents.sharing = sharing

    async def know_own(self) -> None:
        """Know the tenants that are its own now, and no others."""
        await self._residents.know_own()

    async def run(self) -> None:
        """Read, answer and learn what waits, until cancelled."""
        await self._searching.run()

    async def save(self, all_changed: bool = False) -> None:
        """Write the tenants whose time has come, or all that have changed."""
        await self._residents.save_due(all_changed)

    async def drained(self) -> None:
        """Return when every complete group is learnt."""
        await self._searching.learning.drained()

    async def about(self) -> dict[str, Any]:
        """What clients are told of the collection."""
        return self.collection.about() | {"tenants": len(self._residents)}

    async def search(self, call: SearchCall) -> dict[str, Any]:
        """The answers to a search; see `Searching.search`."""
        return await self._searching.search(call)

    async def tenants(
        self, after: str, limit: int, among: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """Tenants by name, those behind `after`; only those `among` these names, if given."""
        listed = self._residents.listed(after, limit, among)
        return [one | self._learning_of(one["tenant"]) for one in listed]

    def _learning_of(self, name: str) -> dict[str, Any]:
        """How a tenant's learning goes, where it is in memory."""
        tenant = self._residents.loaded.get(name)
        return {} if tenant is None else tenant.learning()

    async def tenant(self, name: str) -> dict[str, Any]:
        """The report of a tenant."""
        async with self._residents.using(name) as tenant:
            return await self._told(tenant)

    async def history(self, name: str, since: int, limit: int) -> list[dict[str, Any]]:
        """Rows of a tenant's statistics after row `since`, oldest first."""
        async with self._residents.using(name) as tenant:
            recent = [row for row in tenant.rows if row["batch"] > since]
            if (recent and recent[0]["batch"] == since + 1) or tenant.record.batches <= since:
                return recent[:limit]
            read = tenant.files.read_history
            stored = await asyncio.to_thread(read, since, limit)
            last = stored[-1]["batch"] if stored else since
            return [*stored, *(row for row in recent if row["batch"] > last)][:limit]

    async def latest(self, name: str) -> list[dict[str, Any]]:
        """A tenant's latest queries, the newest first, where the operator allows keeping them."""
        if not self.collection.settings.keep_queries:
            raise Forbidden("queries are not kept here: the operator sets keep_queries.")
        async with self._residents.using(name) as tenant:
            return list(reversed(tenant.latest))

    async def set_mode(self, name: str, mode: Mode) -> dict[str, Any]:
        """Switch a tenant between live, shadow and frozen."""
        async with self._residents.using(name, create=True) as tenant:
            tenant.record.mode = mode
            if mode == "frozen":
                self._searching.learning.forget(name)
            return await self._changed(tenant)

    async def reset(self, name: str) -> dict[str, Any]:
        """Forget all that a tenant has learnt."""
        async with self._residents.using(name) as tenant:
            self._searching.learning.forget(name)
            await self._searching.change(tenant, tenant.session.reset)
            return await self._changed(tenant)

    async def undo(self, name: str) -> dict[str, Any]:
        """Return to the state before the last learnt batch."""
        async with self._residents.using(name) as tenant:
            await self._searching.change(tenant, tenant.session.undo)
            return await self._changed(tenant)

    async def snapshots(self, name: str) -> list[dict[str, Any]]:
        """A tenant's snapshots, oldest first."""
        async with self._residents.using(name) as tenant:
            return await asyncio.to_thread(tenant.files.list_snapshots)

    async def snapshot(self, name: str, snapshot: str) -> dict[str, Any]:
        """Keep what a tenant has learnt under a name; when this returns it is on disk."""
        async with self._residents.using(name, create=True) as tenant, tenant.saving:
            there = await asyncio.to_thread(tenant.files.list_snapshots)
            others = [one for one in there if one["name"] != snapshot]
            if len(others) >= self._most_snapshots:
                raise Conflict(
                    f"there are {len(others)} snapshots, as many as may be: take one of their "
                    "names, or raise tenants.snapshots."
                )
            about = {
                "name": snapshot,
                "time": iso(time.time()),
                "batches": tenant.record.batches,
            }
            kept = tenant.session.snapshot(history=False), tenant.record.written()
            try:
                await self._disk.write(tenant.files.write_snapshot, about, *kept)
            except BadFile as error:
                raise DiskFull(f"the snapshot was not kept: {error}") from error
            return about

    async def rollback(self, name: str, snapshot: str) -> dict[str, Any]:
        """Return to a snapshot."""
        async with self._residents.using(name) as tenant:
            path, _ = tenant.files.snapshot_files(snapshot)
            if not path.exists():
                raise NotFound(f'"{name}" has no snapshot "{snapshot}".')
            self._searching.learning.forget(name)
            await self._searching.change(tenant, _roll_back, self.collection, tenant, path)
            return await self._changed(tenant)

    async def feedback(self, name: str, request_id: str, clicks: Clicks) -> dict[str, Any]:
        """Count what was clicked under both answers of a request, each click once."""
        async with self._residents.using(name) as tenant:
            counted = 0
            for click in tenant.answers.new_clicks(request_id, clicks):
                tenant.record.clicks.add_click(*click)
                counted += 1
            tenant.changed()
            told = await asyncio.to_thread(tenant.clicks_told)
            return {**(told or NO_CLICKS), "counted": counted}

    async def set_ordinary(self, queries: Sequence[Raw]) -> int:
        """Measure ordinary queries, and let every tenant's guard know them."""
        before, beside = self.collection, self._searching.beside
        measured: Ordinary
        (measured,) = await beside.do("", [partial(_measured, before, queries)])
        about = json.dumps(asdict(measured))
        self._searching.collection = before.with_ordinary(measured)
        try:
            await self._disk.write(write_text, self._folder / "ordinary.json", about)
        except BadFile as error:
            raise DiskFull(f"the sample is in force, but was not kept: {error}") from error
        return measured.count

    async def samples(self, caller: str, count: int) -> list[dict[str, Any]]:
        """Queries to try."""
        if (world := self.collection.world) is None:
            return []
        starts = range(0, count, AT_ONCE)
        pieces = [partial(world.samples, at, min(at + AT_ONCE, count)) for at in starts]
        made = await self._searching.beside.do(caller, pieces)
        return [sample for part in made for sample in part]

    async def corrupted(
        self, caller: str, queries: Sequence[Raw], name: str, severity: int
    ) -> list[dict[str, Any]]:
        """The queries after a corruption, as a search takes them."""
        modality = self.collection.modality
        pieces = [
            partial(corrupted, raw, modality, name, severity, place)
            for place, raw in enumerate(queries)
        ]
        return await self._searching.beside.do(caller, pieces)

    async def candidate(self, text: str) -> dict[str, Any]:
        """A candidate as it is shown; its id is given as text, numbers too."""
        world, gallery = self.collection.world, self.collection.gallery
        numbers: list[Id] = [int(text)] if WHOLE_NUMBER.fullmatch(text) else []
        for candidate in [*numbers, text]:
            try:
                gallery.positions([candidate])
            except BadInput:
                continue
            return {"id": candidate} if world is None else world.candidate(candidate)
        raise NotFound(f'no candidate has the id "{text}".')

    async def _told(self, tenant: Tenant) -> dict[str, Any]:
        pending = self._searching.learning.pending(tenant.name)
        snapshots = await asyncio.to_thread(tenant.files.list_snapshots)
        await asyncio.to_thread(tenant.clicks_told)  # it keeps what it says
        return tenant.about(pending) | {"snapshots": snapshots}

    async def _changed(self, tenant: Tenant) -> dict[str, Any]:
        """Write a change at once; a full disk does not undo it, and the client is told."""
        tenant.changed()
        try:
            await self._residents.save(tenant)
        except BadFile as error:
            raise DiskFull(f"the change is in force, but was not kept yet: {error}") from error
        return await self._told(tenant)


NO_CLICKS = {"source": None, "adapted": None, "clicks": 0, "better": None}


def _roll_back(collection: Collection, tenant: Tenant, path: Path) -> None:
    settings = collection.session_settings
    loaded = Session.load(path, collection.encoder, collection.gallery, **settings)
    if loaded.method.name != collection.method.name:
        raise Conflict(
            f"the snapshot is of the method {loaded.method.name}, the collection runs "
            f"{collection.method.name}: reset the tenant instead."
        )
    tenant.session.restore(loaded.state)


def _measured(collection: Collection, queries: Sequence[Raw]) -> Ordinary:
    modality = collection.modality
    return collection.measured([decoded(raw, modality) for raw in queries])
