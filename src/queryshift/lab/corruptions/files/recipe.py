"""A recipe: which corruption, how strong, from which seed and with which options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Self

from queryshift.errors import BadInput, unknown

from .. import Corruption, check_severity, find, generator
from ..names import NAMES
from ..text.caption_words import LEVEL_OF_SEVERITY_1

USUAL_PRESET = "imagenet_c"
USUAL_SEVERITY = 5


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

    @classmethod
    def asked(
        cls,
        modality: str,
        corruption: str,
        severity: int | None = None,
        seed: int = 0,
        options: Mapping[str, str] | None = None,
    ) -> Self:
        """Make a recipe from a user's options; for text, `level` may replace the severity.

        Levels 3 to 7 are the severities 1 to 5; 1 and 2 lie below them and stay an option.
        """
        options = options or {}
        if "level" not in options:
            usual = USUAL_SEVERITY if severity is None else severity
            return cls(modality, corruption, usual, seed, options)
        if severity is not None:
            raise BadInput(
                f"got severity {severity} and level {options['level']}: give one of them "
                "(levels 3 to 7 are the severities 1 to 5)."
            )
        lowest = cls(modality, corruption, 1, seed, options)
        if lowest.step < 1:
            return lowest
        others = {name: value for name, value in options.items() if name != "level"}
        return replace(lowest, severity=lowest.step, options=others)

    @property
    def step(self) -> int:
        """The severity; that of the text levels below severity 1 is 0 and -1."""
        level = self.options.get("level")
        return self.severity if level is None else int(level) - LEVEL_OF_SEVERITY_1 + 1

    def resolve(self) -> Corruption:
        """The corruption itself, with the options it was given."""
        return _resolved(self.modality, self.corruption, tuple(sorted(self.options.items())))

    def apply(self, item: Any, item_id: str, common: bool = False) -> Any:
        """The item, corrupted with its own generator; `common` draws alike at every severity."""
        rng = generator(self.seed, item_id, self.corruption, None if common else self.step)
        return self.resolve()(item, self.severity, rng)

    @property
    def backend(self) -> str:
        """The source of the corruption: a preset, a text backend, or the kind of noise."""
        if self.modality == "audio":
            return "recordings" if "noise" in self.options else "synthetic"
        usual = "rules" if self.modality == "text" else USUAL_PRESET
        return self.options.get("backend", self.options.get("preset", usual))


@lru_cache(maxsize=64)
def _resolved(modality: str, name: str, options: tuple[tuple[str, str], ...]) -> Corruption:
    """The corruption with its options; kept, since a text model takes long to load."""
    plain = find(modality, name)
    known = _options(modality, plain)
    for option, _ in options:
        if option not in known:
            raise BadInput(
                f'the {modality} corruption "{name}" takes no {option}; '
                f"its options: {', '.join(known)}."
            )
    if not options:
        return plain
    change: dict[str, Callable[..., Corruption]]
    change = {"image": _image, "text": _text, "video": _video, "audio": replace}
    return change[modality](plain, **dict(options))


def _options(modality: str, corruption: Any) -> tuple[str, ...]:
    if modality == "audio":
        return tuple(each.name for each in fields(corruption))
    if modality == "text":
        sentence_level = corruption.__name__ in NAMES["text"]["sentence"]
        return ("backend", "models") if sentence_level else ("preset", "level")
    own = {"frost": ("textures",), "fog": ("clouds",)}
    return ("preset", *own.get(corruption.__name__, ()))


def _image(
    corruption: Corruption,
    preset: str = USUAL_PRESET,
    textures: str | None = None,
    clouds: str = "1024",
) -> Corruption:
    from .. import image

    return image.preset(preset, textures=textures, clouds=int(clouds))[corruption.__name__]


def _video(corruption: Corruption, **options: str) -> Corruption:
    from ..video import per_frame

    return per_frame(_image(corruption, **options))


def _text(
    corruption: Corruption,
    preset: str | None = None,
    level: str | None = None,
    backend: str = "rules",
    models: str = "",
) -> Corruption:
    """`models` are names or folders with commas between them."""
    from .. import text

    if corruption.__name__ in NAMES["text"]["sentence"]:
        return text.sentence(corruption.__name__, backend, tuple(filter(None, models.split(","))))
    if preset not in (None, "mm_robustness"):
        raise unknown("text preset", preset, ["mm_robustness"])
    chosen = corruption if preset is None else text.as_published(corruption)
    levels = {str(number): number for number in text.LEVELS}
    if level not in (None, *levels):
        raise unknown("level", level, levels)
    return chosen if level is None else text.at_level(chosen, levels[level])
