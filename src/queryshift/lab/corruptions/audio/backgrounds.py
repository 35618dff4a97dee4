"""The five kinds of background, each a class that is named like its sound."""

from __future__ import annotations

from .background_noise import Background


class Crowd(Background):
    """Many people talking at once."""


class Traffic(Background):
    """A busy road."""


class Rain(Background):
    """Steady rain."""


class Thunder(Background):
    """A thunderstorm."""


class Wind(Background):
    """Gusts of wind."""
