"""The progress bar of tasks that may take longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

Item = TypeVar("Item")
PATIENCE_S = 2.0
LINE_EVERY_S = 10.0
IN_LINES: ContextVar[bool] = ContextVar("progress_in_lines", default=False)
"""Whether to write progress as lines if standard error is not a terminal; commands set it."""


def track(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
    """Yield `items`; once two seconds have passed, show a bar on a terminal's standard error."""
    total = len(items) if total is None and isinstance(items, Sized) else total
    with counting(label, total, PATIENCE_S) as more:
        for item in items:
            yield item
            more(1)


@contextmanager
def counting(
    label: str, total: int | None, patience: float = 0.0
) -> Iterator[Callable[[int], None]]:
    """Yield a function that adds to the count; on a terminal, show a bar after so many seconds."""
    if not sys.stderr.isatty():
        lines = _Lines(label, total)
        yield lines.more
        lines.end()
        return
    due, bar = time.monotonic() + patience, _bar()
    task = bar.add_task(label, total=total)

    def more(count: int) -> None:
        bar.advance(task, count)
        if time.monotonic() >= due:
            bar.start()

    more(0)
    try:
        yield more
    finally:
        if bar.live.is_started:
            bar.stop()


class _Lines:
    """A count, written as a line every few seconds for logs and pipes."""

    def __init__(self, label: str, total: int | None) -> None:
        self._label, self._total = label, total
        self._done, self._started = 0, time.monotonic()
        self._last = self._started
        self._written: int | None = None  # the count of the last line

    def more(self, count: int) -> None:
        """Add to the count; write a line if the last one is old enough."""
        self._done += count
        if IN_LINES.get() and time.monotonic() - self._last >= LINE_EVERY_S:
            self._write()

    def end(self) -> None:
        """Write the final count if other lines came before it."""
        if self._written not in (None, self._done):
            self._write()

    def _write(self) -> None:
        self._last, self._written = time.monotonic(), self._done
        sys.stderr.write(f"{self._label}: {self._done:,}{self._rest()}\n")
        sys.stderr.flush()

    def _rest(self) -> str:
        """The total, and the time left at this pace."""
        if self._total is None:
            return ""
        pace = (self._last - self._started) / max(1, self._done)
        seconds = round(pace * (self._total - self._done))
        left = f", {timedelta(seconds=seconds)} left" if seconds else ""
        return f" of {self._total:,}{left}"


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Left(),
        TextColumn("left"),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
