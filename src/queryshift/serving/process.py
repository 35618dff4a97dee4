"""What holds for a whole process that serves: limits, threads, warnings."""

from __future__ import annotations

import os
import warnings

import torch

from queryshift.media.limits import Limits, set_limits
from queryshift.sessions.events import GuardWarning

from .settings import LimitSettings, ServeSettings


def prepare(settings: ServeSettings) -> None:
    """Set limits on what is read, torch's threads, and what becomes of warnings."""
    set_limits(_media_limits(settings.limits))
    torch.set_num_threads(settings.threads or max(1, (os.cpu_count() or 2) - 1))
    warnings.simplefilter("ignore", GuardWarning)  # logged, and an event of the tenant


def _media_limits(limits: LimitSettings) -> Limits:
    return Limits(
        pixels=limits.pixels,
        file_bytes=limits.body_bytes,
        seconds=limits.seconds,
        characters=limits.characters,
    )
