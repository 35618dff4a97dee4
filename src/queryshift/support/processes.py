"""The same work in several processes: results in order, or related items in one process."""

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
Warned: TypeAlias = "SimpleQueue[tuple[type[Warning], str]]"  # what workers warn of
WORTH_A_PROCESS = 8  # items: starting a process costs about as much as corrupting a few
LARGEST_CHUNK = 16


def each(
    function: Callable[[Given], Result], items: Sequence[Given], jobs: int | None = None
) -> Iterator[Result]:
    """`function` of each item, in `jobs` processes; by default as many as are worth starting."""
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
    """Processes of one worker each, which are given related items one after another."""

    def __init__(self, pools: Sequence[ProcessPoolExecutor], tell: Callable[[], None]) -> None:
        self._pools, self._tell = pools, tell  # what workers have warned of

    def as_finished(
        self, function: Callable[[Given], Result], groups: Sequence[Sequence[Given]]
    ) -> Iterator[Result]:
        """`function` of each item as it is finished; a process keeps to a group while it can.

        Where no group is left to begin, a free process takes over half of the longest.
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
    """The next group, or the later half of what is left of the longest one."""
    if fresh:
        return fresh.popleft()
    longest = max(begun, key=len, default=deque[Given]())
    return deque(reversed([longest.pop() for _ in range((len(longest) + 1) // 2)]))


@contextmanager
def lanes(jobs: int) -> Iterator[Lanes]:
    """So many processes; they start when they get their first item, and end with the block."""
    others = active_children()
    with ExitStack() as stack:
        warned = _Warned()
        try:
            yield Lanes([stack.enter_context(_pool(1, warned)) for _ in range(jobs)], warned.tell)
        except BaseException:  # also an interrupt: do not wait for what is under way
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
    """What workers warn of: each sentence becomes a warning of this process, once."""

    def __init__(self) -> None:
        self.queue: Warned = get_context("spawn").SimpleQueue()
        self._told: set[str] = set()

    def tell(self) -> None:
        """Warn of what has come since."""
        while not self.queue.empty():
            category, text = self.queue.get()
            if text not in self._told:
                self._told.add(text)
                warnings.warn(text, category, stacklevel=3)


def processors() -> int:
    """How many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextmanager
def _workers_deaf_to_interrupts() -> Iterator[None]:
    """Processes started in here leave Ctrl-C, which a terminal sends to all, to their parent."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _prepare_worker(warned: Warned) -> None:
    """Use one thread, never outlive the parent, and let the parent tell what is warned of."""

    sent: set[str] = set()

    def send(message: Warning | str, category: type[Warning], *place: object) -> None:
        if str(message) not in sent:  # the queue holds a few only
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
