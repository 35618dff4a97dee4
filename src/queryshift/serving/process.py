"""What holds for a whole process that serves: limits, threads, warnings."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import warnings

import torch

from queryshift.media.limits import Limits, set_limits
from queryshift.sessions.events import GuardWarning

from .settings import LimitSettings, ServeSettings

M_ARENA_MAX, ARENAS = -8, 2  # of glibc's mallopt
SWITCH = 0.0005  # seconds after which who answers has Python's lock from who decodes or learns


def prepare(settings: ServeSettings) -> None:
    """Set limits on what is read, threads of torch and Python, malloc's arenas, warnings."""
    _limit_arenas()
    set_limits(_media_limits(settings.limits))
    sys.setswitchinterval(SWITCH)
    torch.set_num_threads(settings.threads or max(1, (os.cpu_count() or 2) - 1))
    warnings.simplefilter("ignore", GuardWarning)  # logged, and an event of the tenant
    _make_logging_cheap()


def _make_logging_cheap() -> None:
    """Leave out of log records what our lines do not tell: it is found out for every request."""
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # as the logging how-to says


def _limit_arenas() -> None:
    """Let threads share arenas: each of its own keeps for ever what its largest moment took."""
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if mallopt is not None:
            mallopt(M_ARENA_MAX, ARENAS)


def _media_limits(limits: LimitSettings) -> Limits:
    return Limits(
        pixels=limits.pixels,
        file_bytes=limits.body_bytes,
        seconds=limits.seconds,
        characters=limits.characters,
    )
