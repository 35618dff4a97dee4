"""Parts that are added to the library from outside: models, matchers, sample worlds, corruptions.

The product looks them up here and does not know who added them. The laboratory adds its own when
`queryshift` is imported (`lab/__init__.py`); code of yours may add more in the same way:
`BUNDLED_MODELS.add("mine", "my_package.models:load")`. Nothing is imported before its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .tables import Table

BUNDLED_MODELS: Table[Callable[[str], dict[str, Any]]] = Table("bundled model", {})
"""Name of a model to `load(name)`, which gives its encoders by modality."""

MATCHERS: Table[Mapping[str, Callable[..., Any]]] = Table("text encoder with matchers", {})
"""Class name of a model's text encoder to its matchers, by the modality of the queries."""

SAMPLE_WORLDS: Table[Callable[..., Any]] = Table("sample world", {})
"""Name of a collection that the service can show without data to the class that makes it."""

CORRUPTIONS: Table[Any] = Table("part of the corruptions", {})
"""`names` (by modality and family), `find(modality, name)` and `corrupt(item, corruption, ...)`."""
