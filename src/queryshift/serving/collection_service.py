"""The one owner of a collection's tenants: everything that is asked of them goes through here."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from queryshift.errors import BadInput, Error
from queryshift.galleries.hits import Id
from queryshift.sessions.reference_queries import ReferenceQueries

from .answering.queries import Raw
from .answering.search import Search
from .clicks import NO_CLICKS, Clicks
from .collection import Collection
from .errors import Conflict, Forbidden, NotFound
from .json_values import iso
from .runtime import Runtime
from .samples import corrupted
from .settings import Mode
from .store.stored_tenant import stored_state
from .tenant import Tenant
from .tenant_cache import Work

logger = logging.getLogger("queryshift.serving")

AT_ONCE = 8  # samples that are made
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")


class CollectionService(Search):
    """Tenants of one collection, in one process: answers, reports and what an operator does.

    Args:
        collection: the model, candidates and method.
        runtime: what the process has.
    """

    def __init__(self, collection: Collection, runtime: Runtime) -> None:
        super().__init__(collection, runtime)
        self._snapshots, self._write = self.cache.snapshots, runtime.writer.write
        self._reference_version = 0
        self.read_reference()

    async def save(self, all_changed: bool = False) -> None:
        """Write the tenants whose time has come, or all that have changed; make room."""
        await self.cache.save_due(all_changed)
        await self.cache.evict()

    async def about(self) -> dict[str, Any]:
        """What clients are told of the collection."""
        return self.collection.about() | {"tenants": await self.cache.known()}

    async def tenants(
        self, after: str, limit: int, among: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """Tenants by name, those behind `after`; only those `among` these names, if given."""
        rows = await asyncio.to_thread(self.cache.rows.listed, after, limit, among)
        for row in rows:
            if (tenant := self.cache.loaded.get(row["tenant"])) is not None:
                record = tenant.record
                row["queries"] += record.queries - tenant.stored.queries
                row["last_seen"] = max(row["last_seen"], iso(record.last_seen))
                row |= tenant.learning()
        return rows

    async def tenant(self, name: str) -> dict[str, Any]:
        """The report of a tenant."""
        async with self.cache.using(name) as tenant:
            await self.cache.look(tenant)
            return await self._report(tenant)

    async def history(self, name: str, since: int, limit: int) -> list[dict[str, Any]]:
        """Rows of a tenant's statistics after row `since`, oldest first."""
        async with self.cache.using(name) as tenant:
            recent = [row for row in tenant.rows if row["batch"] > since]
            if (recent and recent[0]["batch"] == since + 1) or tenant.record.batches <= since:
                return recent[:limit]
            stored = await asyncio.to_thread(self.cache.rows.history, tenant.id, since, limit)
            last = stored[-1]["batch"] if stored else since
            return [*stored, *(row for row in recent if row["batch"] > last)][:limit]

    async def latest(self, name: str) -> list[dict[str, Any]]:
        """A tenant's latest queries, the newest first, where the operator allows keeping them."""
        if not self.collection.settings.keep_queries:
            raise Forbidden("queries are not kept here: the operator sets keep_queries.")
        async with self.cache.using(name) as tenant:
            return list(reversed(tenant.latest))

    async def set_mode(self, name: str, mode: Mode) -> dict[str, Any]:
        """Switch a tenant between live, shadow and frozen."""
        async with self.cache.using(name, create=True) as tenant:
            told = await self._changed(tenant, mode)
            if mode == "frozen":
                self.learning.forget(name)
            return told

    async def reset(self, name: str) -> dict[str, Any]:
        """Forget all that a tenant has learnt."""
        async with self.cache.using(name) as tenant:
            self.learning.forget(name)
            return await self._changed(tenant, None, lambda: tenant.session.reset())

    async def undo(self, name: str) -> dict[str, Any]:
        """Return to the state before the last learnt batch."""
        async with self.cache.using(name) as tenant:
            return await self._changed(tenant, None, lambda: tenant.session.undo())

    async def snapshots(self, name: str) -> list[dict[str, Any]]:
        """A tenant's snapshots, oldest first."""
        async with self.cache.using(name) as tenant:
            return await asyncio.to_thread(self._snapshots.listed, tenant.id)

    async def snapshot(self, name: str, snapshot: str) -> dict[str, Any]:
        """Keep what a tenant has learnt under a name; when this returns it is on disk."""
        async with self.cache.using(name, create=True) as tenant:
            batches, state = tenant.record.batches, tenant.settled
            about = {"name": snapshot, "time": iso(time.time()), "batches": batches}
            most = self.runtime.settings.tenants.snapshots

            def keep() -> bool:
                return self._snapshots.keep(tenant.id, about, stored_state(state), most)

            if not await self._write(keep):
                told = f"there are {most} snapshots, as many as may be"
                raise Conflict(f"{told}: delete one, or raise tenants.snapshots.")
            return about

    async def delete(self, name: str) -> bool:
        """Delete a tenant and all that is stored of it; whether there was one."""
        return await self.cache.delete(name)

    async def delete_snapshot(self, name: str, snapshot: str) -> bool:
        """Delete a snapshot; whether there was one."""
        async with self.cache.using(name) as tenant:
            return await self._write(self._snapshots.delete, tenant.id, snapshot)

    async def rollback(self, name: str, snapshot: str) -> dict[str, Any]:
        """Return to a snapshot."""
        async with self.cache.using(name) as tenant:
            kept = await asyncio.to_thread(self._snapshots.find, tenant.id, snapshot)
            if kept is None:
                raise NotFound(f'"{name}" has no snapshot "{snapshot}".')
            self.learning.forget(name)

            def restore() -> None:
                tenant.session.restore(self.collection.opened(kept).state)

            return await self._changed(tenant, None, restore)

    async def feedback(self, name: str, request_id: str, clicks: Clicks) -> dict[str, Any]:
        """Count what was clicked under both answers of a request, each click once."""
        async with self.cache.using(name) as tenant:
            new = list(tenant.answers.new_clicks(request_id, clicks))
            for click in new:
                tenant.record.clicks.add_click(*click)
            tenant.changed()
            told = await asyncio.to_thread(tenant.clicks_told)
            return {**(told or NO_CLICKS), "counted": len(new)}

    async def set_reference(self, queries: Sequence[Raw]) -> int:
        """Measure reference queries, and let every tenant's guard know them."""
        before = self.collection

        def measure() -> ReferenceQueries:
            return before.measured([self.decoder.item(raw) for raw in queries])

        (measured,) = await self.runtime.background.do("", [measure])
        about = json.dumps(asdict(measured))
        self._reference_version = await self._write(self.cache.rows.put_reference, about)
        self.collection = before.with_reference(measured)
        return int(measured.count)

    def read_reference(self) -> None:
        """Put the stored sample of reference queries in force, where it is another one."""
        stored = self.cache.rows.reference()
        if stored is None or stored[0] == self._reference_version:
            return
        self._reference_version = stored[0]
        try:
            sample = ReferenceQueries(**json.loads(stored[1]))
            if sample.encoder != self.collection.encoder.fingerprint():
                raise Conflict("they were measured with another model.")
            self.collection = self.collection.with_reference(sample)
        except (Error, ValueError, TypeError) as error:
            logger.warning("the stored reference queries are passed over: %s", error)

    async def follow(self) -> None:
        """Take over what other processes have changed."""
        await self.cache.follow()
        await asyncio.to_thread(self.read_reference)

    async def samples(self, caller: str, count: int) -> list[dict[str, Any]]:
        """Queries to try."""
        draw, starts = self.collection.world.samples, range(0, count, AT_ONCE)
        pieces = [partial(draw, at, min(at + AT_ONCE, count)) for at in starts]
        made = await self.runtime.background.do(caller, pieces)
        return [sample for part in made for sample in part]

    async def corrupted(
        self, caller: str, queries: Sequence[Raw], name: str, severity: int
    ) -> list[dict[str, Any]]:
        """The queries after a corruption, as a search takes them."""
        how = (self.collection.modality, name, severity)
        pieces = [partial(corrupted, raw, *how, place) for place, raw in enumerate(queries)]
        return await self.runtime.background.do(caller, pieces)

    async def candidate(self, text: str) -> dict[str, Any]:
        """A candidate as it is shown; its id is given as text, numbers too."""
        world, gallery = self.collection.world, self.collection.gallery
        numbers: list[Id] = [int(text)] if WHOLE_NUMBER.fullmatch(text) else []
        for candidate in [*numbers, text]:
            try:
                gallery.positions([candidate])
            except BadInput:
                continue
            return world.candidate(candidate)
        raise NotFound(f'no candidate has the id "{text}".')

    async def _report(self, tenant: Tenant) -> dict[str, Any]:
        snapshots = await asyncio.to_thread(self._snapshots.listed, tenant.id)
        await asyncio.to_thread(tenant.clicks_told)  # it keeps what it says
        return tenant.about(self.learning.pending(tenant.name)) | {"snapshots": snapshots}

    async def _changed(
        self, tenant: Tenant, mode: Mode | None, work: Work = None
    ) -> dict[str, Any]:
        """Make a change and write it, both or neither."""
        await self.cache.carry_out(tenant, mode, work)
        return await self._report(tenant)
