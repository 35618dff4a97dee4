"""A method in words: "rest", "tent:lr=0.001+decoupled", "rest:gap=false,entropy=false"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from queryshift.errors import BadInput, unknown
from queryshift.methods import METHODS, WRAPPERS, Method
from queryshift.support.setting_fields import described, sayable

from .benchmarks import Benchmark

OWN_TEMPERATURE = ("tcr", "rest", "tcr_untrained")  # the paper's 0.02, on every benchmark
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class Named:
    """A method or a wrapper of the tables, and the settings it is given."""

    name: str
    settings: Mapping[str, Any]

    def __str__(self) -> str:
        """As one would write it, settings in alphabetical order."""
        told = [f"{key}={_written(value)}" for key, value in sorted(self.settings.items())]
        return f"{self.name}:{','.join(told)}" if told else self.name


_DECOUPLED = Named("decoupled", {})  # around REST: its own gradient decoupling


def canonical(spec: str) -> str:
    """The one way to write what a user may write in several."""
    return "+".join(map(str, _parsed(spec)))


def method_of(spec: str, row: Benchmark) -> Method:
    """The method a spec stands for as a benchmark wants it; what the spec says itself wins."""
    first, *wrappers = _parsed(spec)
    wanted: dict[str, Any] = {}
    if row.temperature is not None and first.name not in OWN_TEMPERATURE:
        wanted["temperature"] = row.temperature
    if first.name == "rest" and "decouple" not in first.settings:
        wanted["decouple"] = row.diverse or _DECOUPLED in wrappers
        wrappers = [one for one in wrappers if one != _DECOUPLED]
    method = METHODS[first.name](**{**wanted, **first.settings})
    for wrapper in wrappers:
        around: Any = WRAPPERS[wrapper.name]
        method = around(method, **wrapper.settings)
    method.check()
    return method


def _parsed(spec: str) -> list[Named]:
    """The method first, then its wrappers from the inside out."""
    first, *wrappers = spec.split("+")
    tables = [METHODS, *[WRAPPERS] * len(wrappers)]
    return [_named(text, table) for text, table in zip((first, *wrappers), tables, strict=True)]


def _named(text: str, table: Mapping[str, type[Method]]) -> Named:
    name, colon, given = text.strip().partition(":")
    kind = table[name]
    settings: dict[str, Any] = {}
    for one in given.split(",") if colon else ():
        key, equals, value = (part.strip() for part in one.partition("="))
        if not equals:
            raise BadInput(f'"{text}": got "{one}", expected setting=value, as in {name}:lr=0.001.')
        if key in settings:
            raise BadInput(f'"{text}": {key} is given twice.')
        settings[key] = _read(name, kind, key, value)
    return Named(name, settings)


def _read(name: str, kind: type[Method], key: str, value: str) -> Any:
    """The value of a setting, of the type that the method's field has."""
    known = sayable(kind)
    if key not in known:
        raise unknown(f"setting of {name}", key, known)
    for hint in known[key]:
        try:
            return _as(hint, value)
        except ValueError:
            continue
    raise BadInput(f'{name}: {key} is "{value}", expected {described(known[key])}.')


def _as(hint: Any, value: str) -> Any:
    """The value as this type; ValueError if it is none."""
    if get_origin(hint) is Literal:
        return get_args(hint)[get_args(hint).index(value)]
    if hint is NoneType or hint is bool:
        words = {"none": None} if hint is NoneType else _BOOLEANS
        if value.lower() not in words:
            raise ValueError
        return words[value.lower()]
    return hint(value)


def _written(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
