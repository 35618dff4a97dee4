"""The settings of a session as a table, each with where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any

from .methods.base import Method, advice

if TYPE_CHECKING:
    from .session import Session

Row = tuple[str, str, str, str]


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
    yield ("method", session.method.name, "the user", "")
    yield from _fields_of(session.method, session.asked, session)
    inner, asked = session.method, session.asked
    while (wrapped := getattr(inner, "method", None)) is not None:
        inner, asked = wrapped, getattr(asked, "method", wrapped)
        yield from _fields_of(inner, asked, session, prefix=f"{inner.name}.")


def _fields_of(method: Method, asked: Method, session: Session, prefix: str = "") -> Iterator[Row]:
    for one in fields(method):
        if one.name == "method":
            continue
        value, given = getattr(method, one.name), getattr(asked, one.name)
        origin = _origin(one, given)
        if one.name in ("lr", "temperature") and given is None:
            origin = _advised(session, one)
        shown = "given" if one.name == "fisher" and value is not None else str(value)
        yield (prefix + one.name, shown, origin, one.metadata.get("about", ""))


def _advised(session: Session, one: Field[Any]) -> str:
    """Where a learning rate or temperature comes from that the method leaves open."""
    if one.name == "lr" and session.asked_lr is not None:
        return "the user"
    known = advice(session.encoder.recommended, session.method.name)
    return "the encoder" if one.name in known else str(one.metadata["origin"])


def _session_rows(session: Session) -> Iterator[Row]:
    for one in fields(session.settings):
        value = getattr(session.settings, one.name)
        yield (one.name, str(value), _origin(one, value), one.metadata["about"])


def _size_rows(session: Session) -> Iterator[Row]:
    adapted = session.state.adapted.values
    yield ("encoder", type(session.encoder).__name__, "the user", "")
    yield ("gallery", f"{len(session.gallery):,} candidates", "the user", "")
    size = f"{adapted.numel():,} in {len(session.params)} tensors"
    yield ("adapts", size, "paper", f"{adapted.numel() * adapted.element_size() / 1024:.0f} KiB")


def _origin(one: Field[Any], value: Any) -> str:
    return one.metadata.get("origin", "ours") if value == one.default else "the user"
