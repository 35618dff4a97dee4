"""Work in several processes, with results in order or with related items in one process."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.queues import SimpleQueue
from typing import TypeAlias, TypeVar

from queryshift.errors import Error

Given = TypeVar("Given")
Result = TypeVar("Result")
Warned: TypeAlias = "SimpleQueue[tuple[type[Warning], str]]"  # warnings of workers
WORTH_A_PROCESS = 8  # items; starting a process takes as long as corrupting a few
LARGEST_CHUNK = 16


def each(
    function: Callable[[Given], Result], items: Sequence[Given], jobs: int | None = None
) -> Iterator[Result]:
    """Yield `function(item)` in order, from `jobs` processes; by default as many as pay off."""
    worth = len(items) if jobs else len(items) // WORTH_A_PROCESS
    processes = min(jobs or processors(), worth)
    if processes <= 1:
        yield from map(function, items)
        return
    chunk = max(1, min(LARGEST_CHUNK, len(items) // (4 * processes)))
    warned = _Warned()
    with _pool(processes, warned) as pool:
        with _workers_deaf_to_interrupts():
            results = pool.map(function, items, chunksize=chunk)
        yield from results


class Lanes:
    """Processes with one worker each, which get related items one after another."""

    def __init__(self, pools: Sequence[ProcessPoolExecutor], tell: Callable[[], None]) -> None:
        self._pools, self._tell = pools, tell  # `tell` repeats the workers' warnings

    def as_finished(
        self, function: Callable[[Given], Result], groups: Sequence[Sequence[Given]]
    ) -> Iterator[Result]:
        """Yield `function(item)` as items finish; a process works on one group at a time.

        If no new group is left, a free process takes half of the longest one.
        """
        fresh = deque(deque(group) for group in groups if group)
        begun: dict[Future[Result], tuple[ProcessPoolExecutor, deque[Given]]] = {}

        def go_on(pool: ProcessPoolExecutor, own: deque[Given]) -> None:
            own = own or _next(fresh, [left for _, left in begun.values()])
            if own:
                begun[pool.submit(function, own.popleft())] = pool, own

        with _workers_deaf_to_interrupts():
            for pool in self._pools:
                go_on(pool, deque())
        while begun:
            for done in wait(begun, return_when=FIRST_COMPLETED).done:
                go_on(*begun.pop(done))
                self._tell()
                yield done.result()


def _next(fresh: deque[deque[Given]], begun: Sequence[deque[Given]]) -> deque[Given]:
    """Return the next group, or the second half of the longest group's remaining items."""
    if fresh:
        return fresh.popleft()
    longest = max(begun, key=len, default=deque[Given]())
    return deque(reversed([longest.pop() for _ in range((len(longest) + 1) // 2)]))


@contextmanager
def lanes(jobs: int) -> Iterator[Lanes]:
    """Yield processes, which start with their first item and end with the block."""
    others = active_children()
    with ExitStack() as stack:
        warned = _Warned()
        try:
            yield Lanes([stack.enter_context(_pool(1, warned)) for _ in range(jobs)], warned.tell)
        except BaseException:  # also an interrupt: do not wait for running items
            for worker in set(active_children()).difference(others):
                worker.terminate()
            raise


@contextmanager
def _pool(processes: int, warned: _Warned) -> Iterator[ProcessPoolExecutor]:
    spawn = get_context("spawn")
    try:
        with ProcessPoolExecutor(processes, spawn, _prepare_worker, (warned.queue,)) as pool:
            yield pool
        warned.tell()
    except BrokenProcessPool as error:
        raise Error(
            "a worker process was ended from outside, perhaps for lack of memory: try again with "
            "fewer jobs; what is finished is not done again."
        ) from error


class _Warned:
    """Warnings of workers, repeated in this process once each."""

    def __init__(self) -> None:
        self.queue: Warned = get_context("spawn").SimpleQueue()
        self._told: set[str] = set()

    def tell(self) -> None:
        """Repeat new warnings."""
        while not self.queue.empty():
            category, text = self.queue.get()
            if text not in self._told:
                self._told.add(text)
                warnings.warn(text, category, stacklevel=3)


def processors() -> int:
    """Return how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextmanager
def _workers_deaf_to_interrupts() -> Iterator[None]:
    """Make processes that start in this block ignore Ctrl-C, which the parent handles."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _prepare_worker(warned: Warned) -> None:
    """Set up a worker: it ends with its parent, and its warnings go to the parent."""

    sent: set[str] = set()

    def send(message: Warning | str, category: type[Warning], *place: object) -> None:
        if str(message) not in sent:  # the queue is small
            sent.add(str(message))
            warned.put((category, str(message)))

    warnings.showwarning = send  # type: ignore[assignment]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OPENCV_FOR_THREADS_NUM"] = "1"  # read when OpenCV is imported


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
