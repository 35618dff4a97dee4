"""Which owner holds which share, as a front door has last heard."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from .refusals import OwnerLost

Value = TypeVar("Value")
MISSED = 2  # looks in a row that an owner leaves unanswered until it counts as lost


class Holders:
    """What owners say they hold, and the calls that wait for each.

    Args:
        owners: how many owners there are, and how many shares.
    """

    def __init__(self, owners: int) -> None:
        self.states: list[dict[str, Any] | None] = [None] * owners
        self._holders: dict[int, tuple[int, int]] = {}  # share: term, owner
        self._missed = [0] * owners
        self._waiting: list[set[asyncio.Future[Any]]] = [set() for _ in range(owners)]

    def heard(self, number: int, state: dict[str, Any]) -> None:
        """Take note of what an owner says; a later term wins."""
        self.states[number], self._missed[number] = state, 0
        for share, term in state["terms"].items():
            self._holders[share] = max(self._holders.get(share, (0, 0)), (term, number))

    def silent(self, number: int) -> bool:
        """Take note of an owner that does not answer; whether it counts as lost only now."""
        self._missed[number] += 1
        if self._missed[number] != MISSED:
            return False
        self.states[number] = None
        for call in self._waiting[number]:
            call.cancel()
        return True

    def owner(self, share: int) -> int:
        """The owner that holds a share; a refusal to come back later where none is known."""
        _, number = self._holders.get(share, (0, -1))
        if number < 0 or self._missed[number] >= MISSED:
            raise OwnerLost(f"share {share} is without an owner for a moment: ask again.")
        return number

    def all_held(self) -> bool:
        """Whether every share has an owner."""
        return len(self._holders) == len(self.states)

    def all_present(self) -> bool:
        """Whether every owner answers."""
        return None not in self.states

    def present(self) -> list[int]:
        """The owners that answer."""
        return [number for number, state in enumerate(self.states) if state is not None]

    async def unless_lost(self, number: int, work: Coroutine[Any, Any, Value]) -> Value:
        """What the work gives; a refusal when its owner falls silent meanwhile."""
        call = asyncio.ensure_future(work)
        self._waiting[number].add(call)
        try:
            return await call
        except asyncio.CancelledError:
            if self._missed[number] >= MISSED and call.cancelled():
                raise OwnerLost(f"owner {number} has fallen silent: ask again.") from None
            call.cancel()
            raise
        finally:
            self._waiting[number].discard(call)
