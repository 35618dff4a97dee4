"""Shared code for reading items: batches, files, bytes and errors."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar

from queryshift.errors import BadFile, BadInput, BadItem, MissingExtra

from .limits import check_bytes, limits

Stored: TypeAlias = Path | bytes | bytearray | BinaryIO
T = TypeVar("T")


def read_each(items: Iterable[Any], read: Callable[[Any], T]) -> list[T]:
    """Read each item; an item that `read` refuses raises `BadItem` with its index."""
    every, values = list(items), list[T]()
    try:
        for value in map(read, every):
            values.append(value)
    except (BadInput, BadFile) as error:
        index = len(values)
        raise BadItem(index, str(error), described(every[index])) from error
    return values


def described(item: Any) -> str:
    """Return the type of an item with its article: "a float", "an ndarray", "None"."""
    name = type(item).__name__
    if item is None or isinstance(item, bytes):
        return "None" if item is None else "bytes"
    article = "an" if name.lower().startswith(("a", "e", "i", "o", "nd")) else "a"
    return f"{article} {name}"


def is_stored(item: Any) -> bool:
    """Return whether an item must be decoded: a path, bytes, or a file object."""
    return isinstance(item, Path | bytes | bytearray) or hasattr(item, "read")


def source(item: Stored) -> Path | BytesIO:
    """Return what a decoder reads: the path of a regular file, or bytes in memory."""
    if isinstance(item, Path):
        return regular(item, sized=True)
    content = bytes(item) if isinstance(item, bytes | bytearray) else _content(item)
    check_bytes(len(content))
    return BytesIO(content)


def regular(path: Path, sized: bool = False) -> Path:
    """Return the path of a regular file; refuse others, and with `sized` too large ones."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise BadInput("got a folder, pipe or device, expected a regular file.")
    if sized:
        check_bytes(status.st_size)
    return path


def _content(file: BinaryIO) -> bytes:
    """Read the rest of a file object and restore its position, so that it can be read again."""
    try:
        place = file.seek(0, 1)
        content = file.read(limits().file_bytes)
        file.seek(place)
    except (OSError, ValueError) as error:  # a pipe, a closed file
        raise BadInput(
            f"got a file that cannot be read and put back ({error}): give its bytes."
        ) from error
    if not isinstance(content, bytes):
        raise BadInput('got a file that was opened as text: open it with "rb".')
    return content


@contextmanager
def decoding(item: Any, kind: str) -> Iterator[None]:
    """Turn every error of a decoder into a `BadFile` that names the file."""
    name = f'"{item}"' if isinstance(item, Path) else "what it holds"
    try:
        yield
    except (BadFile, MissingExtra):
        raise
    except BadInput as error:
        raise BadFile(f"{name}: {error}") from error
    except FileNotFoundError:
        raise BadFile(f"there is no file {name}: expected {kind}.") from None
    except Exception as error:
        raise BadFile(
            f"{name} cannot be read as {kind} ({_reason(error, item)}): repair it, or leave it out."
        ) from error


def _reason(error: Exception, item: Any) -> str:
    """Return a decoder's message in one line, with the file's name instead of its path."""
    said = getattr(error, "error_string", None) or getattr(error, "strerror", None) or str(error)
    plain = str(said).strip().rstrip(".") or type(error).__name__
    return plain.replace(str(item), item.name) if isinstance(item, Path) else plain
