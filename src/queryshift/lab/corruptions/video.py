"""The 12 video corruptions: an image corruption on every frame, with its own random draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from queryshift.errors import BadInput

from . import image
from .corruption import Composite, Corruption, check_severity
from .names import NAMES


def per_frame(corruption: Corruption) -> Corruption:
    """Corrupt every frame of a clip, an array (T, H, W, 3) or a sequence of images."""
    return Composite(corruption.__name__, _per_frame, (corruption,))


def _per_frame(corruption: Corruption, clip: Any, severity: int, rng: Generator) -> Any:
    check_severity(severity)
    _check_clip(clip)
    frames = [corruption(frame, severity, rng) for frame in clip]
    return np.stack(frames) if isinstance(clip, np.ndarray) else type(clip)(frames)


def _check_clip(clip: Any) -> None:
    if isinstance(clip, np.ndarray):
        if clip.ndim != 4:
            raise BadInput(f"clip has the shape {clip.shape}; expected (frames, height, width, 3).")
    elif not isinstance(clip, list | tuple):
        raise BadInput(f"a clip is an array or a list of frames; got {type(clip).__name__}.")
    if len(clip) == 0:
        raise BadInput("clip has no frames; expected at least one.")


FAMILIES: dict[str, tuple[Corruption, ...]] = {
    category: tuple(map(per_frame, image.FAMILIES[category])) for category in NAMES["video"]
}
