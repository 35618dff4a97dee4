"""Errors inside a user's own encoder: a sentence that names its class and method."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

import queryshift
from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadInput, Error

LIBRARY = Path(queryshift.__file__).parent


@contextmanager
def errors_named(encoder: Encoder) -> Iterator[None]:
    """Turn what an own encoder raises into a `BadInput`; its traceback is the error's cause."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        place = _place(encoder, error)
        if place is None:
            raise  # a mistake of the library's
        said = f"{type(error).__name__}: {error}".rstrip(": .")
        raise BadInput(
            f"{place} raised {said}. This is code of your own encoder: --traceback, or "
            "error.__cause__ in Python, shows where it fails."
        ) from error


def _place(encoder: Encoder, error: BaseException) -> str | None:
    """The encoder's method that failed, its file and line; None for code of the library."""
    kind = type(encoder)
    for frame, line in walk_tb(error.__traceback__):
        code = frame.f_code
        own = getattr(kind, code.co_name, None)
        file = Path(code.co_filename)
        if getattr(own, "__code__", None) is code and LIBRARY not in file.parents:
            return f"{kind.__name__}.{code.co_name} (line {line} of {file.name})"
    return None
