"""Updates beside the answers: one background thread for all sessions, one update of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor

from queryshift.errors import BadInput
from queryshift.support.priority import yielding

Found = TypeVar("Found")


class Worker:
    """The update of one session that runs in the background, if there is one."""

    def __init__(self) -> None:
        self._started: Future[None] | None = None
        self._process = os.getpid()
        self._error: BaseException | None = None
        self._asked: torch.cuda.Stream | None = None

    @property
    def busy(self) -> bool:
        """Whether an update is running, or waits for those of other sessions."""
        return self._running is not None and not self._running.done()

    @property
    def _running(self) -> Future[None] | None:
        """The latest update, unless we were forked since: its thread is our parent's."""
        return self._started if self._process == os.getpid() else None

    def start(
        self, update: Callable[[], Found], then: Callable[[Found], None], device: torch.device
    ) -> None:
        """Run an update, then what follows it; the caller has forward that none is under way.

        On a GPU the update has a stream of its own, and is complete when what follows it begins. It
        sees the caller's context: what was configured there, as for compiling, holds here too.
        """
        on_gpu = device.type == "cuda"
        self._asked = torch.cuda.current_stream(device) if on_gpu else None
        context = copy_context()
        self._process = os.getpid()
        try:
            self._started = _pool(self._process).submit(context.run, self._run, update, then)
        except RuntimeError as error:
            raise BadInput(
                "the interpreter is shutting down, and no update can be started any more: answer "
                "with adapt=False there, or end the traffic before the program ends."
            ) from error

    def hand_over(self, learnt: Mapping[str, Tensor]) -> None:
        """Keep the memory of what an update made until answers that read it are done with it."""
        if self._asked is not None:
            for value in learnt.values():
                value.record_stream(self._asked)

    def wait(self) -> None:
        """Return when no update is under way; never called by one who holds what it needs."""
        if (running := self._running) is not None:
            wait([running])

    def check(self) -> None:
        """Raise, once, what went wrong in the background."""
        error, self._error = self._error, None
        if error is not None:
            error.add_note("raised by an update in the background: the session is as before it.")
            raise error

    def _run(self, update: Callable[[], Found], then: Callable[[Found], None]) -> None:
        try:
            with _beside(self._asked), yielding():
                result = update()
            then(result)
        except BaseException as error:
            self._error = error


@contextmanager
def _beside(asked: torch.cuda.Stream | None) -> Iterator[None]:
    """Work on a stream of our own, behind what the answers' stream was given so far."""
    if asked is None:
        yield
        return
    own = _stream(asked.device)
    own.wait_stream(asked)
    with torch.cuda.stream(own):
        yield
    own.synchronize()


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One thread per process, which a forked one lacks: all sessions share its encoder shells."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="queryshift-worker")
