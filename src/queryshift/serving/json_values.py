"""Numbers and times as JSON has them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def plain(value: Any) -> Any:
    """A number that JSON has: NaN and infinity become null."""
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


def iso(seconds: float) -> str:
    """A time as ISO 8601, in UTC; empty where the store has none, since it is damaged."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
