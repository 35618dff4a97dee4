"""Explicit tables of what there is: names at once, the things themselves on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar, cast

from queryshift.errors import unknown

Entry = TypeVar("Entry")


class Table(Mapping[str, Entry], Generic[Entry]):
    """Names to things, each given as "module:attribute" and imported when asked for."""

    def __init__(self, kind: str, homes: Mapping[str, str]) -> None:
        self.kind, self.homes = kind, dict(homes)

    def add(self, name: str, home: str) -> None:
        """Add a name, or give it another home."""
        self.homes[name] = home

    def __getitem__(self, name: str) -> Entry:
        if name not in self.homes:
            raise unknown(self.kind, name, self.homes)
        module, attribute = self.homes[name].split(":")
        return cast(Entry, getattr(import_module(module), attribute))

    def __contains__(self, name: object) -> bool:
        return name in self.homes

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)
