"""How much each tenant has asked for lately."""

from __future__ import annotations

import time
from collections import Counter, deque

SECONDS = 1.0  # that are lately
ALIKE = 4.0  # times as much as another that a tenant may ask for, and they ask alike


class Demand:
    """Queries of each tenant in the last second.

    Example:
        >>> demand = Demand()
        >>> demand.add("one", 3)
        >>> demand.add("other", 4)
        >>> demand.even()
        True
        >>> demand.add("other", 40)
        >>> demand.even()
        False
    """

    def __init__(self) -> None:
        self._asked: deque[tuple[float, str, int]] = deque()
        self._counts = Counter[str]()

    def add(self, tenant: str, queries: int) -> None:
        """Count what a tenant asks for."""
        self._asked.append((time.monotonic(), tenant, queries))
        self._counts[tenant] += queries

    def even(self) -> bool:
        """Whether all who asked lately asked for about as much."""
        limit = time.monotonic() - SECONDS
        while self._asked and self._asked[0][0] < limit:
            _, tenant, queries = self._asked.popleft()
            self._counts[tenant] -= queries
            if not self._counts[tenant]:
                del self._counts[tenant]
        counts = self._counts.values()
        return not counts or max(counts) <= ALIKE * min(counts)

    def __len__(self) -> int:
        return len(self._counts)
