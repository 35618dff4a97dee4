"""The largest sizes of items; larger ones are refused."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from queryshift.errors import BadInput

FULL_RATE = 48_000  # samples a second


@dataclass(frozen=True)
class Limits:
    """Items of these sizes, and larger ones, are refused.

    Args:
        pixels: of an image or of a video frame. Pillow itself refuses files above 178 million.
        ratio: of an image's longer side to its shorter one; models enlarge the shorter one.
        file_bytes: of a file or of bytes that hold an image or an audio file.
        seconds: of audio; all channels together may have as many samples as one at 48 kHz.
        characters: of a text.

    Example:
        >>> Limits(pixels=4_000_000).pixels
        4000000
    """

    pixels: int = 64_000_000
    ratio: float = 512
    file_bytes: int = 1 << 30
    seconds: float = 7200
    characters: int = 100_000

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise BadInput(f"the limit {name} is {value!r}: expected a number above 0.")


_in_force = Limits()


def limits() -> Limits:
    """Return the current limits."""
    return _in_force


def set_limits(new: Limits) -> Limits:
    """Set the limits for all threads of this process.

    Args:
        new: the limits from now on.

    Returns:
        The previous limits, so that you can restore them.

    Example:
        >>> before = set_limits(Limits(characters=1000))
        >>> set_limits(before).characters
        1000
    """
    global _in_force
    before, _in_force = _in_force, new
    return before


def check_pixels(width: int, height: int) -> None:
    """Refuse an image that is too large or too narrow."""
    most, ratio = limits().pixels, limits().ratio
    if width * height >= most:
        raise BadInput(
            f"got {width} x {height} pixels; {most:,} or more are not decoded: shrink it first."
        )
    if max(width, height) >= ratio * min(width, height) > 0:
        raise BadInput(
            f"got {width} x {height} pixels; a side {ratio:g} times the other, or longer, is not "
            "read: crop it first."
        )


def check_samples(frames: int, channels: int, rate: int) -> None:
    """Refuse audio that is too long, or has too many samples in all channels."""
    most = limits().seconds
    if frames >= most * rate or frames * channels >= most * FULL_RATE:
        raise BadInput(
            f"got {frames:,} samples in {channels} channels at {rate:,} Hz; {most:g} s or more are "
            "not decoded: cut it first."
        )


def check_bytes(count: int) -> None:
    """Refuse a file, or bytes, that are too large."""
    most = limits().file_bytes
    if count >= most:
        raise BadInput(f"got {count:,} bytes; {most:,} or more are not read: shrink it first.")


def check_characters(count: int) -> None:
    """Refuse a text that is too long."""
    most = limits().characters
    if count >= most:
        raise BadInput(f"got {count:,} characters; {most:,} or more are not read: cut it first.")
