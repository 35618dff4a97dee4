"""Events of a session: resets, dropped updates, the end of a shift."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

EventKind = Literal["guard", "not_finite", "ordinary", "restart", "dropped"]
PACKAGE = str(Path(__file__).parents[1])
logger = logging.getLogger("queryshift")


class GuardWarning(UserWarning):
    """A session was reset, or an update dropped, because answers went wrong.

    Examples:
        >>> import warnings
        >>> import queryshift as qs
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", qs.GuardWarning)  # events and the log have it too
    """


@dataclass(frozen=True)
class Event:
    """Something that happened to a session.

    Args:
        kind: "guard" (the guard reset the session), "not_finite" (an update or the adapted model
            gave NaN or infinity), "ordinary" (batches of reference queries ended a shift, and the
            session was reset), "restart" (the method reset the session by itself, as SAR
            does) or "dropped" (an update in the background did not take effect).
        reason: what happened, in a sentence.
        batch: number of the batch, counted from 1.
        time: when, in seconds since the epoch.
        session: the session's name, if it has one.

    Examples:
        >>> import queryshift as qs
        >>> qs.Event("guard", "collapse: one candidate took 60% more", batch=7, time=0.0).kind
        'guard'
    """

    kind: EventKind
    reason: str
    batch: int = 0
    time: float = 0.0
    session: str | None = None

    @property
    def wrong(self) -> bool:
        """Whether answers went wrong."""
        return self.kind in ("guard", "not_finite")

    def warn(self) -> None:
        """Warn if answers went wrong; before anything changes, since warnings may be errors."""
        if self.wrong:
            warnings.warn(f"queryshift: {self.reason}", GuardWarning, stacklevel=outside_level())

    def log(self) -> None:
        """Write a log record."""
        level = logging.WARNING if self.wrong else logging.INFO
        named = f"session {self.session}" if self.session else "session"
        extra = {"session": self.session, "event": self.kind, "batch": self.batch}
        logger.log(level, "%s, batch %d: %s", named, self.batch, self.reason, extra=extra)


def call_back(callback: Callable[[Any], object], value: Any) -> None:
    """Call a user's function; log its errors instead of raising them."""
    try:
        callback(value)
    except Exception:
        logger.exception("a callback of a session failed")


def outside_level() -> int:
    """The caller's stack level of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
