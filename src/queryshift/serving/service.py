"""All that a process serves: its collections opened, its saving, its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from queryshift.errors import unknown

from .answering.queries import decoded, small
from .collection import Collection, open_collection
from .collection_service import CollectionService
from .errors import Ending, NotFound, StoreTrouble
from .metrics import Metrics
from .runtime import Runtime
from .samples import read_queries
from .settings import ServeSettings
from .store.retention import expire

SAVE_EVERY = 0.5  # seconds between looks at what is to be written
LOOK_EVERY = 0.5  # seconds between looks at what other processes changed, if none tells
LISTEN_AGAIN = 5.0  # seconds after which a lost connection is tried again
EXPIRE_EVERY = 300.0  # seconds between looks at what is too old
logger = logging.getLogger("queryshift.serving")


class Service:
    """Every collection of a process, and what keeps running behind them.

    Args:
        settings: of the server.
        metrics: what is counted.

    Attributes:
        names: of the collections.
        store: the database.
        writer: writes to it.
    """

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self._settings, self.names = settings, list(settings.collections)
        self._runtime = Runtime(settings, metrics)
        self.store, self.writer = self._runtime.store, self._runtime.writer
        self._collections = {}
        for name, one in settings.collections.items():
            made = settings.data / "galleries" / name
            made.mkdir(parents=True, exist_ok=True)
            collection = with_sample(open_collection(name, one, made, settings.device))
            self._collections[name] = CollectionService(collection, self._runtime)
        self._running: list[asyncio.Task[None]] = []
        self._heard = asyncio.Event()  # that another process changed something
        self._looking: asyncio.Task[None] | None = None  # at what others changed
        self._ending = False

    def collection(self, name: str) -> CollectionService:
        """One of the collections."""
        if self._ending:
            raise Ending("this server is ending: ask again, another may take its place.")
        if name not in self._collections:
            raise NotFound(str(unknown("collection", name, self._collections)))
        return self._collections[name]

    async def start(self) -> None:
        """Begin to answer, learn and save."""
        work = [one.run() for one in self._collections.values()]
        work += [self._runtime.run(), self._keep_expiring(), self._keep_saving()]
        if self.store.shared:
            work = [self._keep_following(), self._keep_listening(), *work]
        self._running = [asyncio.create_task(one) for one in work]

    async def stop(self) -> None:
        """Refuse what still comes, learn what waits, write all that changed, and end."""
        self._ending = True
        try:
            async with asyncio.timeout(self._settings.drain_seconds / 2):
                every = (one.learning.drained() for one in self._collections.values())
                await asyncio.gather(*every)
        except TimeoutError:
            logger.warning("groups that still waited to be learnt were given up")
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for one in self._collections.values():
            await one.save(all_changed=True)
        if self._looking is not None:
            await self._looking
        self._runtime.close()

    def healthy(self) -> bool:
        """Whether all that must run is running."""
        return bool(self._running) and not any(task.done() for task in self._running)

    async def _keep_saving(self) -> None:
        while True:
            await asyncio.sleep(SAVE_EVERY)
            await self._each(CollectionService.save)

    async def _keep_following(self) -> None:
        """Take over what other processes change: when told, and twice a second anyway."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):  # wait_for may lose a cancellation
                    await self._heard.wait()
            self._heard.clear()
            self._looking = asyncio.create_task(self._each(CollectionService.follow))
            await asyncio.shield(self._looking)

    async def _keep_listening(self) -> None:
        while True:
            try:
                async for _ in self.store.changes():
                    self._heard.set()
            except StoreTrouble as error:
                logger.info("changes are looked for, since none is told: %s", error)
            await asyncio.sleep(LISTEN_AGAIN)

    async def _keep_expiring(self) -> None:
        while True:
            with suppress(StoreTrouble):  # noted, and tried again
                days = self._settings.tenants.keep_days
                if await self.writer.write(expire, self.store, days):
                    await self._each(CollectionService.follow)
            await asyncio.sleep(EXPIRE_EVERY)

    async def _each(self, work: Callable[[CollectionService], Awaitable[None]]) -> None:
        """Do something for each collection; what fails is tried again when it is next due."""
        for one in self._collections.values():
            try:
                await work(one)
            except StoreTrouble as error:
                logger.info("the store was not read or written: %s", error)
            except Exception:  # a bug of ours must not end it
                logger.exception("what is due for a collection was not done")


def with_sample(collection: Collection) -> Collection:
    """The collection with its reference queries: of its file, or of the embedded world."""
    settings, modality = collection.settings, collection.modality
    items = collection.world.reference()
    if settings.reference is not None:
        read = read_queries(settings.reference, modality, settings.strict)
        items = [small(decoded(raw, modality), collection) for raw in read]
    return collection.with_reference(collection.measured(items)) if items else collection
