"""When a call is sent again, and after how long."""

from __future__ import annotations

import random
from dataclasses import dataclass

PASSING = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Retries:
    """How often a call is sent again, and how long is waited before.

    Attributes:
        count: tries after the first.
        first: seconds before the second try, doubled before each further one.
        longest: seconds, the longest wait, also where the service asks for more.
    """

    count: int = 4
    first: float = 0.2
    longest: float = 30.0

    def pause(self, tries: int, status: int | None, asked: str | None = None) -> float | None:
        """Seconds before the next try, None where there is none.

        Args:
            tries: how often the call was sent so far.
            status: of the answer; None where none came.
            asked: the answer's header Retry-After.

        Returns:
            What the service asks for, else a growing, somewhat random time.

        Examples:
            >>> Retries().pause(1, 422) is None, Retries(count=0).pause(1, 503) is None
            (True, True)
            >>> Retries().pause(1, 429, asked="2")
            2.0
        """
        if tries > self.count or (status is not None and status not in PASSING):
            return None
        if asked is not None and asked.isdigit():
            return min(float(asked), self.longest)
        longest: float = min(self.first * 2 ** (tries - 1), self.longest)
        return longest * random.uniform(0.5, 1.0)
