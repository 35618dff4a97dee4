"""Updates in the background: one thread for all sessions, one update at a time of each."""

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
    """The background update of one session, if one is running."""

    def __init__(self) -> None:
        self._started: Future[None] | None = None
        self._process = os.getpid()
        self._error: BaseException | None = None
        self._asked: torch.cuda.Stream | None = None

    @property
    def busy(self) -> bool:
        """Whether an update is running, or waiting for those of other sessions."""
        return self._running is not None and not self._running.done()

    @property
    def _running(self) -> Future[None] | None:
        """The latest update; None after a fork, since its thread is the parent's."""
        return self._started if self._process == os.getpid() else None

    def start(
        self, update: Callable[[], Found], then: Callable[[Found], None], device: torch.device
    ) -> None:
        """Run an update, then `then` with its result. No update may be running (see `busy`).

        On a GPU the update has its own stream, and is complete before `then` is called. It runs in
        the caller's context, with its settings for compiling, for example.
        """
        on_gpu = device.type == "cuda"
        self._asked = torch.cuda.current_stream(device) if on_gpu else None
        context = copy_context()
        self._process = os.getpid()
        try:
            self._started = _pool(self._process).submit(context.run, self._run, update, then)
        except RuntimeError as error:
            raise BadInput(
                "the interpreter is shutting down, so no update can start: answer with adapt=False "
                "there, or stop the traffic before the program ends."
            ) from error

    def hand_over(self, learnt: Mapping[str, Tensor]) -> None:
        """Keep the memory of an update's result until the answers that read it are done."""
        if self._asked is not None:
            for value in learnt.values():
                value.record_stream(self._asked)

    def wait(self) -> None:
        """Wait for the running update; the caller must not hold a lock that it needs."""
        if (running := self._running) is not None:
            wait([running])

    def check(self) -> None:
        """Raise the error of a failed update, once."""
        error, self._error = self._error, None
        if error is not None:
            error.add_note("raised by an update in the background: the session is unchanged.")
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
    """Work on another stream, after the work that the answers' stream has so far."""
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
    """One thread per process: all sessions share its encoder replicas."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="queryshift-worker")
