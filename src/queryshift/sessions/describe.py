"""The settings of a session as a table, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from queryshift.encoders.encoder import Encoder
from queryshift.methods.base import Method, advice

if TYPE_CHECKING:
    from .session import Session

Row = tuple[str, str, str, str]

USER, ENCODER, DEFAULT, STREAM = "the user", "the encoder", "the default", "the first batch"
TUNABLE = ("lr", "temperature")
"""Settings that a method may leave to the encoder; wrappers use their method's."""
LEARNING = ("lr", "weight_decay", "optimiser", "steps", "score_from")
"""Settings that have no effect if the method does not learn."""


def origins(
    asked: Method, encoder: Encoder, lr: float | None, defaults: Iterable[str] = ()
) -> dict[str, str]:
    """Where the settings of `TUNABLE` and `defaults` come from.

    Args:
        asked: The method as the user gave it.
        encoder: The encoder, which may recommend both.
        lr: The user's learning rate.
        defaults: Names of settings that the default session chose, the method included.
    """
    told = {
        name for name in TUNABLE for layer in _layers(asked) if getattr(layer, name) is not None
    }
    if lr is not None:
        told.add("lr")
    advised = advice(encoder.recommended, asked.name, [*_layers(asked)][-1])
    published = {field.name: field.metadata.get("origin", "ours") for field in fields(asked)}
    tuned = {
        name: USER if name in told else ENCODER if name in advised else published[name]
        for name in TUNABLE
    }
    return tuned | dict.fromkeys(defaults, DEFAULT)


def found(known: Mapping[str, str]) -> bool:
    """Whether nobody set a learning rate, so that the stream gives it."""
    return known["lr"] not in (USER, ENCODER)


def table(session: Session) -> str:
    """One line per setting: name, value, origin, meaning."""
    rows = [*_method_rows(session), *_session_rows(session), *_size_rows(session)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def _method_rows(session: Session) -> Iterator[Row]:
    yield ("method", session.method.name, session.origins.get("method", USER), "")
    for depth, layer in enumerate(_layers(session.method)):
        prefix = f"{layer.name}." if depth else ""
        for row in _fields_of(layer, session.origins, prefix):
            if session.method.adapting or row[0] not in LEARNING:
                yield _found_rate(session, row) if row[0] == "lr" else row


def _found_rate(session: Session, row: Row) -> Row:
    """The row of the learning rate, with the stream's rate if it gives one."""
    if not session.adaptation.finds_rate:
        return row
    rate = session.state.rate
    return ("lr", f"{rate:.2g}" if rate else "not yet known", STREAM, row[3])


def _layers(method: Method) -> Iterator[Method]:
    """The method, then the one it wraps, down to the innermost."""
    layer: Method | None = method
    while layer is not None:
        yield layer
        layer = getattr(layer, "method", None)


def _fields_of(method: Method, known: Mapping[str, str], prefix: str) -> Iterator[Row]:
    for field in fields(method):
        if field.name == "method":
            continue
        value = getattr(method, field.name)
        origin = known.get(field.name) or _origin(field, value)
        shown = "given" if field.name == "fisher" and value is not None else str(value)
        yield (prefix + field.name, shown, origin, field.metadata.get("about", ""))


def _session_rows(session: Session) -> Iterator[Row]:
    for field in fields(session.settings):
        if not session.method.adapting and field.name in LEARNING:
            continue
        value = getattr(session.settings, field.name)
        origin = session.origins.get(field.name) or _origin(field, value)
        yield (
            field.name,
            "on" if is_dataclass(value) else str(value),
            origin,
            field.metadata["about"],
        )
        if is_dataclass(value):
            yield from _rows_within(value, field.name)


def _rows_within(value: Any, name: str) -> Iterator[Row]:
    """One row for each setting of a guard, its reference queries and hub correction."""
    for field in fields(value):
        inner, place = getattr(value, field.name), f"{name}.{field.name}"
        if is_dataclass(inner):
            yield from _rows_within(inner, place)
        else:
            yield (place, str(inner), _origin(field, inner), "")


def _size_rows(session: Session) -> Iterator[Row]:
    yield ("encoder", type(session.encoder).__name__, USER, "")
    yield ("gallery", f"{len(session.gallery):,} candidates", USER, "")
    if not session.method.adapting:
        return
    adapted = session.state.adapted.values
    size = f"{adapted.numel():,} in {len(session.params)} tensors"
    yield ("adapts", size, "paper", f"{adapted.numel() * adapted.element_size() / 1024:.0f} KiB")


def _origin(field: Field[Any], value: Any) -> str:
    return field.metadata.get("origin", "ours") if value == field.default else USER
