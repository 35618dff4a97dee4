"""Settings as dataclass fields: the origin of a default, and the allowed values."""

from __future__ import annotations

from dataclasses import field, fields
from functools import cache
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from queryshift.errors import BadInput

Origin = Literal["paper", "TCR's code", "official code", "T3A's code", "a port", "ours"]
LARGEST = 2**63 - 1  # whole number that torch accepts
_DESCRIBED: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    NoneType: "none",
}


def setting(default: Any, origin: Origin, about: str, **more: str) -> Any:
    """Return a dataclass field with the origin of its default and its meaning."""
    return field(default=default, metadata={"origin": origin, "about": about, **more})


def sayable(kind: Any) -> dict[str, tuple[Any, ...]]:
    """Return the fields of a dataclass with simple values, and the types each may have."""
    hints = _hints(kind)
    typed = {field.name: _alternatives(hints[field.name]) for field in fields(kind)}
    return {
        name: types
        for name, types in typed.items()
        if all(hint in _DESCRIBED or get_origin(hint) is Literal for hint in types)
    }


_hints = cache(get_type_hints)  # slow for dataclasses


def described(types: tuple[Any, ...]) -> str:
    """Describe the allowed values in words."""
    return " or ".join(_described(hint) for hint in types)


def check_values(owner: Any, name: str) -> None:
    """Refuse values that their fields do not allow; convert NumPy's numbers to Python's."""
    try:
        allowed = sayable(type(owner))
    except NameError:  # a user's class, with types that only a type checker knows
        return
    for key, types in allowed.items():
        value = getattr(owner, key)
        if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
            value = value.item()
            object.__setattr__(owner, key, value)
        if not any(_is(value, one) for one in types):
            raise BadInput(f"{name}: {key} is {value!r}, expected {described(types)}.")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if NoneType in get_args(hint) else (hint,)


def _described(hint: Any) -> str:
    return " or ".join(get_args(hint)) if get_origin(hint) is Literal else _DESCRIBED[hint]


def _is(value: Any, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if hint is NoneType or hint is bool or isinstance(value, bool):
        return type(value) is hint
    if isinstance(value, Integral) and hint in (int, float):
        return abs(int(value)) <= LARGEST
    return hint is float and isinstance(value, Real) and value == value  # and not NaN
