"""Time stamps of rows, such as those of a traffic log: read them, and sort the rows by them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from math import isfinite
from typing import Any

from .records import Record


def in_time_order(times: Sequence[float], *columns: Sequence[Any]) -> list[list[Any]]:
    """The times and the other columns, sorted by time; rows of one time stay in their order."""
    order = sorted(range(len(times)), key=times.__getitem__)
    return [[column[row] for row in order] for column in (times, *columns)]


def seconds_of(record: Record) -> float:
    """The time of a row in seconds since the epoch, from seconds or ISO 8601."""
    stamp = record.values["time"]
    try:
        if isinstance(stamp, datetime):
            return stamp.timestamp()
        if isfinite(seconds := float(stamp)):
            return seconds
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except (ValueError, OverflowError):
        raise record.problem(
            f"got the time stamp {stamp!r}, expected seconds or ISO 8601 (2026-01-31T12:00:00)."
        ) from None
