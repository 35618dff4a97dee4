"""Tables from names to objects that are imported on first use.

The package looks up models, matchers, sample worlds and corruptions here. The laboratory adds its
own when `queryshift` is imported (`lab/__init__.py`); your code can add more in the same way:
`BUNDLED_MODELS.add("mine", "my_package.models:load")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

from queryshift.errors import unknown

Entry = TypeVar("Entry")


class Table(Mapping[str, Entry], Generic[Entry]):
    """Names to objects, each given as "module:attribute" and imported when you look it up."""

    def __init__(self, kind: str, homes: Mapping[str, str]) -> None:
        self.kind, self.homes = kind, dict(homes)

    def add(self, name: str, home: str) -> None:
        """Add a name, or replace its "module:attribute"."""
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


BUNDLED_MODELS: Table[Callable[[str], dict[str, Any]]] = Table("bundled model", {})
"""Name of a model to `load(name)`, which returns its encoders by modality."""

MATCHERS: Table[Mapping[str, Callable[..., Any]]] = Table("text encoder with matchers", {})
"""Class name of a model's text encoder to its matchers, by the modality of the queries."""

SAMPLE_WORLDS: Table[Callable[..., Any]] = Table("sample world", {})
"""Name of a collection that the service can show without your data, to its class."""

CORRUPTIONS: Table[Any] = Table("part of the corruptions", {})
"""`names` (by modality and family), `find(modality, name)` and `corrupt(item, corruption, ...)`."""
