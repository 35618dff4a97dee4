"""How broadly an index is searched: one whole number, whatever the engine calls it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchEffort:
    """What widens a search: more of it finds more, and takes longer.

    Args:
        name: the option of the gallery's address: "ef", "nprobe", "probes".
        value: how broadly the gallery searches now.
        largest: the most that the engine allows.

    Examples:
        >>> from queryshift.galleries.search_effort import SearchEffort
        >>> str(SearchEffort("ef", 256, 1000))
        'ef=256'
    """

    name: str
    value: int
    largest: int

    def __str__(self) -> str:
        return f"{self.name}={self.value}"
