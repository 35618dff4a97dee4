"""How strong a text corruption is: severities 1 to 5 are the published levels 3 to 7."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryshift.errors import BadInput

from ..corruption import Corruption, check_severity
from ..names import NAMES

if TYPE_CHECKING:
    from numpy.random import Generator

LEVELS = (1, 2, 3, 4, 5, 6, 7)
RATE_PER_LEVEL = 0.05
LEVEL_OF_SEVERITY_1 = 3


class _Level(int):
    """A published level, standing where a severity stands."""


def rate(severity: int) -> float:
    """The share of words to touch: 0.15 at severity 1, 0.35 at severity 5."""
    if isinstance(severity, _Level):
        return RATE_PER_LEVEL * severity
    return RATE_PER_LEVEL * (check_severity(severity) + LEVEL_OF_SEVERITY_1 - 1)


def at_level(corruption: Corruption, level: int) -> Corruption:
    """The character or word corruption fixed at a published level, 1 to 7, at every severity."""
    if corruption.__name__ in NAMES["text"]["sentence"]:
        raise BadInput(
            f"{corruption.__name__} has no levels: the published benchmark has one form of it."
        )
    if level not in LEVELS:
        raise BadInput(f"level is {level!r}; the published levels are 1 to {LEVELS[-1]}.")
    return _AtLevel(corruption, int(level))


@dataclass(frozen=True)
class _AtLevel:
    corruption: Corruption
    level: int

    @property
    def __name__(self) -> str:
        return f"at_level({self.corruption.__name__}, {self.level})"

    def __call__(self, caption: str, severity: int, rng: Generator, /) -> str:
        check_severity(severity)
        corrupted: str = self.corruption(caption, _Level(self.level), rng)
        return corrupted
