"""The ids that Qdrant has: whole numbers from 0 on, and UUIDs."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from queryshift.errors import BadInput

from ..hits import Id


def can_be_an_id(one: Id) -> bool:
    """Whether Qdrant can have this id.

    Examples:
        >>> from queryshift.galleries.qdrant.qdrant_ids import can_be_an_id
        >>> can_be_an_id(7), can_be_an_id(-7), can_be_an_id("seven")
        (True, False, False)
    """
    if isinstance(one, int):
        return 0 <= one < 2**64
    try:
        return str(UUID(one)) == one
    except ValueError:
        return False


def check_new_ids(ids: Iterable[Id]) -> None:
    """Refuse ids that Qdrant cannot have."""
    if foreign := [one for one in ids if not can_be_an_id(one)]:
        raise BadInput(
            f"got the id {foreign[0]!r}, expected whole numbers from 0 on or UUIDs, the only ids "
            "that Qdrant has: keep yours in the payload."
        )
