"""What a setting may be, read from the type of its field."""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from queryshift.errors import BadInput

_TOLD: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    NoneType: "none",
}


def sayable(kind: type[Any]) -> dict[str, tuple[Any, ...]]:
    """The fields of a dataclass that can be said in a word, and the types each may have."""
    hints = get_type_hints(kind)
    typed = {field.name: _alternatives(hints[field.name]) for field in fields(kind)}
    return {
        name: types
        for name, types in typed.items()
        if all(hint in _TOLD or get_origin(hint) is Literal for hint in types)
    }


def described(types: tuple[Any, ...]) -> str:
    """In words: what a setting of these types may be."""
    return " or ".join(_described(hint) for hint in types)


def check_values(owner: Any, name: str) -> None:
    """Refuse a value that its field does not allow: it would act, in silence, like another one."""
    try:
        allowed = sayable(type(owner))
    except NameError:  # a class of the user's own, with types that only a type checker knows
        return
    for key, types in allowed.items():
        value = getattr(owner, key)
        if not any(_is(value, hint) for hint in types):
            raise BadInput(f"{name}: {key} is {value!r}, expected {described(types)}.")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if NoneType in get_args(hint) else (hint,)


def _described(hint: Any) -> str:
    return " or ".join(get_args(hint)) if get_origin(hint) is Literal else _TOLD[hint]


def _is(value: Any, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if hint is NoneType or hint is bool or isinstance(value, bool):
        return isinstance(value, hint)
    if hint is int:
        return isinstance(value, Integral)
    return isinstance(value, Real) and value == value  # a number, and not NaN
