"""Writing beside the answers: in a thread of its own, and a failure costs no answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ..errors import StoreTrouble
from ..metrics import Metrics

Value = TypeVar("Value")
logger = logging.getLogger("queryshift.serving")


class Writer:
    """Writes one thing after another; a full disk degrades the service, and it says so.

    Args:
        metrics: what is counted.

    Attributes:
        trouble: why the latest write failed; None where it did not.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.trouble: str | None = None
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, "queryshift-disk")

    async def write(self, function: Callable[..., Value], *args: Any) -> Value:
        """What a function gives that writes; a `StoreTrouble` of it is noted, and raised."""
        loop = asyncio.get_running_loop()
        try:
            written = await loop.run_in_executor(self._thread, function, *args)
        except StoreTrouble as error:
            if self.trouble is None:
                logger.error("the store cannot be written, answers go on: %s", error)
            self._note(str(error))
            self._metrics.failed_saves.inc()
            raise
        self._note(None)
        self._metrics.saves.inc()
        return written

    def close(self) -> None:
        """End the thread when it has written all."""
        self._thread.shutdown()

    def _note(self, trouble: str | None) -> None:
        if trouble is None and self.trouble is not None:
            logger.warning("the store can be written again")
        self.trouble = trouble
        self._metrics.disk_trouble.set(trouble is not None)
