"""How large an item may be before it is refused."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from queryshift.errors import BadInput

FULL_RATE = 48_000  # samples a second


@dataclass(frozen=True)
class Limits:
    """Items of this size, and larger ones, are refused.

    Args:
        pixels: of an image or of a video's frame. Above 178 million Pillow refuses files itself.
        ratio: of an image's longer side to its shorter one, which models enlarge to theirs.
        file_bytes: of a file or of bytes that hold an image or an audio file.
        seconds: of audio; all its channels together may have as many samples as one at 48 kHz.
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
    """The limits in force."""
    return _in_force


def set_limits(new: Limits) -> Limits:
    """Put other limits in force, for every thread of this process.

    Args:
        new: the limits for whatever is read from now on.

    Returns:
        The limits that were in force, to be put back.

    Example:
        >>> before = set_limits(Limits(characters=1000))
        >>> set_limits(before).characters
        1000
    """
    global _in_force
    before, _in_force = _in_force, new
    return before


def check_pixels(width: int, height: int) -> None:
    """Refuse an image that is too large, or so narrow that a model would enlarge it too far."""
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
    """Refuse audio that is too long, or has too many samples in all its channels."""
    most = limits().seconds
    if frames >= most * rate or frames * channels >= most * FULL_RATE:
        raise BadInput(
            f"got {frames:,} samples in {channels} channels at {rate:,} Hz; {most:g} s or more are "
            "not decoded: cut it first."
        )


def check_bytes(count: int) -> None:
    """Refuse a file, or what one holds, that is too large."""
    most = limits().file_bytes
    if count >= most:
        raise BadInput(f"got {count:,} bytes; {most:,} or more are not read: shrink it first.")


def check_characters(count: int) -> None:
    """Refuse a text that is too long."""
    most = limits().characters
    if count >= most:
        raise BadInput(f"got {count:,} characters; {most:,} or more are not read: cut it first.")
