"""The same work in several processes, results in order."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import TypeVar

from queryshift.errors import Error

Given = TypeVar("Given")
Result = TypeVar("Result")
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
    with _pool(processes) as pool:
        with _workers_deaf_to_interrupts():
            results = pool.map(function, items, chunksize=chunk)
        yield from results


def as_finished(
    function: Callable[[Given], Result],
    items: Sequence[Given],
    jobs: int,
    set_up: Callable[[], None],
) -> Iterator[Result]:
    """`function` of each item in `jobs` processes, as they finish; `set_up` is called in each."""
    others = active_children()
    with _pool(min(jobs, len(items)), set_up) as pool:
        try:
            with _workers_deaf_to_interrupts():
                waiting = [pool.submit(function, item) for item in items]
            for done in as_completed(waiting):
                yield done.result()
        except BaseException:  # also an interrupt: do not wait for what is under way
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(active_children()).difference(others):
                worker.terminate()
            raise


@contextmanager
def _pool(
    processes: int, set_up: Callable[[], None] | None = None
) -> Iterator[ProcessPoolExecutor]:
    try:
        with ProcessPoolExecutor(
            processes, get_context("spawn"), _prepare_worker, (set_up,)
        ) as pool:
            yield pool
    except BrokenProcessPool as error:
        raise Error(
            "a worker process was ended from outside, perhaps for lack of memory: try again with "
            "fewer jobs; what is finished is not done again."
        ) from error


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


def _prepare_worker(set_up: Callable[[], None] | None) -> None:
    """Use one thread, and never outlive the parent."""
    import cv2

    threading.Thread(target=_end_with_parent, daemon=True).start()
    cv2.setNumThreads(1)
    if set_up is not None:
        set_up()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
