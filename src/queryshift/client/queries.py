"""A query as users hand it over, as the JSON that the service reads."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from queryshift.errors import BadInput

Query: TypeAlias = str | bytes | Path | Sequence[float] | Mapping[str, Any] | Any
"""A text, the bytes or the path of an image or audio, a PIL image, a vector, or a mapping such
as `{"image": path, "text": "in red"}` for a composed query."""

MODALITIES = ("text", "image", "audio", "vector")
AUDIO = (b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")


def encoded(query: Query) -> dict[str, Any]:
    """The JSON of one query.

    Args:
        query: a text (never opened as a path), the bytes or the path of an image or audio, a
            PIL image, a vector, or a mapping from "text", "image", "audio" or "vector" to these.

    Returns:
        The modality, or several of a composed query, and the value of each.

    Examples:
        >>> encoded("a red square")
        {'text': 'a red square'}
        >>> encoded([0.6, 0.8])
        {'vector': [0.6, 0.8]}
        >>> encoded({"image": b"PNG", "text": "in red"})
        {'image': 'UE5H', 'text': 'in red'}
    """
    if isinstance(query, Mapping):
        return {_known(name): _value(name, part) for name, part in query.items()}
    if isinstance(query, str):
        return {"text": query}
    if isinstance(query, bytes | bytearray | Path) or _is_image(query):
        content = _bytes_of(query)
        return {_kind_of(content): _base64(content)}
    return {"vector": _vector(query)}


def encoded_all(queries: Sequence[Query]) -> list[dict[str, Any]]:
    """The JSON of several queries; one that stands alone is refused."""
    if isinstance(queries, str | bytes | Path | Mapping) or not hasattr(queries, "__iter__"):
        raise BadInput(
            f"got one query of type {type(queries).__name__}, expected a list of queries: put it "
            "in a list."
        )
    return [encoded(query) for query in queries]


def _known(name: str) -> str:
    if name not in MODALITIES:
        raise BadInput(f'no modality "{name}" in a query; known are {", ".join(MODALITIES)}.')
    return name


def _value(modality: str, part: Any) -> Any:
    """One part of a query whose modality is told."""
    if modality == "text":
        return str(part)
    return _vector(part) if modality == "vector" else _base64(_bytes_of(part))


def _is_image(query: Any) -> bool:
    """Whether this is a PIL image, told without importing Pillow."""
    return hasattr(query, "save") and hasattr(query, "getbands")


def _bytes_of(part: Any) -> bytes:
    if _is_image(part):
        stream = io.BytesIO()
        part.save(stream, format="PNG")
        return stream.getvalue()
    if isinstance(part, Path):
        try:
            return part.read_bytes()
        except OSError as error:
            raise BadInput(f"cannot read {part}: {error.strerror}; check the path.") from error
    if isinstance(part, bytes | bytearray):
        return bytes(part)
    raise BadInput(
        f"got {type(part).__name__} for an image or audio, expected bytes, a pathlib.Path or a "
        "PIL image."
    )


def _kind_of(content: bytes) -> str:
    """ "audio" for what begins as an audio file does, else "image"."""
    wave = content[:4] == b"RIFF" and content[8:12] == b"WAVE"
    return "audio" if wave or content.startswith(AUDIO) else "image"


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _vector(values: Any) -> list[float]:
    """Finite numbers from a list, an array or a tensor of one dimension."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    try:
        vector = [float(value) for value in listed]
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"got {type(values).__name__} for a query, expected a text, bytes, a pathlib.Path, a "
            "PIL image or a vector of numbers; an array of pixels goes through "
            "PIL.Image.fromarray."
        ) from error
    if not all(map(math.isfinite, vector)):
        raise BadInput("a query vector has values that are not finite: leave it out.")
    return vector
