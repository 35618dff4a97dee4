"""A recipe: which corruption, how strong, from which seed and with which options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

from queryshift.corruptions import Corruption, check_severity, find, generator
from queryshift.errors import BadInput

USUAL_PRESET = "imagenet_c"


@dataclass(frozen=True)
class Recipe:
    """All that decides how an item is corrupted, apart from the item and its id."""

    modality: str
    corruption: str
    severity: int
    seed: int = 0
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_severity(self.severity)
        self.resolve()

    def resolve(self) -> Corruption:
        """The corruption itself, with the options it was given."""
        return _resolved(self.modality, self.corruption, tuple(sorted(self.options.items())))

    def apply(self, item: Any, item_id: str, common: bool = False) -> Any:
        """The item, corrupted with its own generator; `common` draws alike at every severity."""
        rng = generator(self.seed, item_id, self.corruption, None if common else self.severity)
        return self.resolve()(item, self.severity, rng)

    @property
    def backend(self) -> str:
        """What makes the corrupted item, in a word."""
        if self.modality == "audio":
            return "recordings" if "noise" in self.options else "synthetic"
        return self.options.get("preset", USUAL_PRESET)


@lru_cache(maxsize=64)
def _resolved(modality: str, name: str, options: tuple[tuple[str, str], ...]) -> Corruption:
    found = find(modality, name)
    for option, _ in options:
        if option not in _options(modality, found):
            known = ", ".join(_options(modality, found)) or "none"
            raise BadInput(
                f'the {modality} corruption "{name}" takes no {option}; its options: {known}.'
            )
    return _with_options(modality, found, dict(options)) if options else found


def _options(modality: str, corruption: Any) -> tuple[str, ...]:
    if modality == "audio":
        return tuple(each.name for each in fields(corruption))
    return ("preset", "textures") if corruption.__name__ == "frost" else ("preset",)


def _with_options(modality: str, corruption: Any, options: dict[str, str]) -> Corruption:
    if modality == "audio":
        changed: Corruption = replace(corruption, **options)
        return changed
    from queryshift.corruptions.image import preset

    textures = options.get("textures")
    picture = preset(options.get("preset", USUAL_PRESET), textures=textures)[corruption.__name__]
    if modality == "image":
        return picture
    from queryshift.corruptions.video import per_frame

    return per_frame(picture)
