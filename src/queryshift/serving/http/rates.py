"""How often somebody may ask: a bucket that fills at a rate."""

from __future__ import annotations

import time

from ..errors import TooBusy


class Rate:
    """A bucket of `burst` requests, filled at `rate` a second.

    Args:
        rate: requests a second.
        burst: requests at once.

    Example:
        >>> bucket = Rate(1, burst=2)
        >>> bucket.take(), bucket.take()
        (None, None)
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._filled = float(burst), time.monotonic()

    def take(self) -> None:
        """Take one request out, or refuse it with when to come back."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._filled) * self._rate)
        self._filled = now
        if self._left < 1:
            raise TooBusy(
                f"the token asks more than {self._rate:g} times a second: slow down.",
                (1 - self._left) / self._rate,
            )
        self._left -= 1
