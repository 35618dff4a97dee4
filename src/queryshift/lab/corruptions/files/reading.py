"""What every reader of files does: refuse absurd sizes, and name the file in what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from queryshift.errors import BadFile, Error

LARGEST_PICTURE = 64_000_000  # pixels


def check_size(path: Path, width: int, height: int) -> None:
    """Refuse a picture that is too large to decode."""
    if width * height > LARGEST_PICTURE:
        raise BadFile(
            f'"{path}" has {width} x {height} pixels; more than {LARGEST_PICTURE:,} are not '
            "decoded: shrink it first."
        )


@contextmanager
def named(path: Path, kind: str) -> Iterator[None]:
    """Name the file in whatever goes wrong: a decoder may raise anything on a damaged one."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        reason = str(error).replace(str(path), path.name) or type(error).__name__
        raise BadFile(f'"{path}" cannot be read as {kind}: {reason}') from error
