"""All owners of a server: its collections opened, its threads, its saving, its end."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from queryshift.errors import Error, unknown
from queryshift.sessions.ordinary import Ordinary

from .collection import Collection, open_collection
from .disk import Disk
from .metrics import Metrics
from .owner import Owner
from .queries import decoded
from .query_file import read_queries
from .reading import DECODERS
from .refusals import Ending, NotFound
from .searching import Searching, Threads
from .settings import ServeSettings

SAVE_EVERY = 0.5  # seconds between looks at what is to be written
logger = logging.getLogger("queryshift.serving")


class Tenants:
    """Every tenant of every collection, owned by this process.

    Args:
        settings: of the server.
        metrics: what is counted.
    """

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self._settings = settings
        self.disk = Disk(metrics)
        self._threads = Threads(
            ThreadPoolExecutor(1, "queryshift-model"),
            ThreadPoolExecutor(1, "queryshift-learner"),
            ThreadPoolExecutor(DECODERS, "queryshift-decoder"),
        )
        self._owners = {}
        for name, one in settings.collections.items():
            folder = settings.data / "collections" / name
            folder.mkdir(parents=True, exist_ok=True)
            collection = with_sample(open_collection(name, one, folder), folder)
            searching = Searching(collection, folder, settings, self._threads, self.disk, metrics)
            self._owners[name] = Owner(searching, folder, self.disk, settings.tenants.snapshots)
        self._running: list[asyncio.Task[None]] = []
        self._ending = False

    @property
    def trouble(self) -> str | None:
        """Why the disk cannot be written; None where it can."""
        return self.disk.trouble

    def names(self) -> list[str]:
        """The collections."""
        return list(self._owners)

    def owner(self, collection: str, tenant: str | None = None) -> Owner:
        """Who owns a tenant; here the same for all tenants of a collection."""
        if self._ending:
            raise Ending(
                "this server is ending, and nothing it answered now would be kept: ask again."
            )
        try:
            return self._owners[collection]
        except KeyError:
            raise NotFound(str(unknown("collection", collection, self._owners))) from None

    async def counted(self, owner: int) -> bytes:
        """Refused: there is one process, and /metrics is its own."""
        raise NotFound("there is one owner here: ask for /metrics without a number.")

    async def start(self) -> None:
        """Begin to answer, learn and save."""
        work = [owner.run() for owner in self._owners.values()]
        self._running = [asyncio.create_task(one) for one in [*work, self._keep_saving()]]

    async def stop(self) -> None:
        """Refuse what still comes, learn what waits, write all that changed, and end."""
        self._ending = True
        drained = asyncio.gather(*(owner.drained() for owner in self._owners.values()))
        try:
            await asyncio.wait_for(drained, self._settings.drain_seconds / 2)
        except TimeoutError:
            logger.warning("groups that still waited to be learnt were given up")
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for owner in self._owners.values():
            await owner.save(all_changed=True)
        self.disk.close()

    def healthy(self) -> bool:
        """Whether all that must run is running."""
        return bool(self._running) and not any(task.done() for task in self._running)

    async def _keep_saving(self) -> None:
        while True:
            await asyncio.sleep(SAVE_EVERY)
            for owner in self._owners.values():
                try:
                    await owner.save()
                except Exception:  # a bug of ours must not end all saving
                    logger.exception("tenants were not written")


def with_sample(collection: Collection, folder: Path) -> Collection:
    """The collection with its ordinary queries: those put last, the file's, or the world's own."""
    kept = folder / "ordinary.json"
    try:
        if kept.exists():
            sample = Ordinary(**json.loads(kept.read_text(encoding="utf-8")))
            if sample.encoder == collection.encoder.fingerprint():
                return collection.with_ordinary(sample)
            logger.warning("the ordinary queries were measured with another model: passed over")
    except (Error, ValueError, TypeError, OSError) as error:
        logger.warning('"%s" is passed over: %s', kept, error)
    items = ordinary_items(collection)
    return collection.with_ordinary(collection.measured(items)) if items else collection


def ordinary_items(collection: Collection) -> Sequence[Any]:
    """Ordinary queries of the collection's file, or of the embedded world."""
    path, modality = collection.settings.ordinary, collection.modality
    if path is not None:
        return [decoded(raw, modality) for raw in read_queries(path, modality)]
    return [] if collection.world is None else collection.world.ordinary()
