"""Methods in words: "default", "rest", "tent:lr=0.001+decoupled", "frozen+hubs"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from queryshift.errors import BadInput, check_known
from queryshift.support.registry import Table
from queryshift.support.setting_fields import described, sayable

from . import METHODS, WRAPPERS, Method

if TYPE_CHECKING:
    from queryshift.retrieval.hubness.hub_correction import Hubs

DEFAULT = "default"
"""Stands for a session without a method; see `from_spec` in `sessions/policy.py`."""
HUBS = "hubs"
_CORRECTIONS: Table[type[Hubs]] = Table(
    "correction", {HUBS: "queryshift.retrieval.hubness.hub_correction:Hubs"}
)
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class Part:
    """A method or a wrapper of the tables, and the settings it is given."""

    name: str
    settings: Mapping[str, Any]

    def __str__(self) -> str:
        """The one way to write it: settings in alphabetical order."""
        pairs = [f"{key}={_written(value)}" for key, value in sorted(self.settings.items())]
        return f"{self.name}:{','.join(pairs)}" if pairs else self.name


@dataclass(frozen=True)
class Spec:
    """A method, its wrappers from the inside out, and hub correction: read, but not yet made."""

    method: Part
    wrappers: tuple[Part, ...] = ()
    correction: Part | None = None  # always the last

    @classmethod
    def read(cls, text: str) -> Spec:
        """The spec that a text stands for; every name and value in it is checked."""
        first, *others = text.split("+")
        if _name(first) == DEFAULT:
            if text.strip() != DEFAULT:
                raise BadInput(
                    f'"{text}": {DEFAULT} chooses its own settings and corrects hubs: write '
                    f"{DEFAULT} alone, or name a method, such as infomax:lr=0.001+hubs."
                )
            return cls(Part(DEFAULT, {}))
        last = others.pop() if others and _name(others[-1]) == HUBS else None
        if any(_name(one) == HUBS for one in others):
            raise BadInput(
                f'"{text}": hub correction comes after the whole method: write +hubs last.'
            )
        return cls(
            _part(first, METHODS),
            tuple(_part(one, WRAPPERS) for one in others),
            None if last is None else _part(last, _CORRECTIONS),
        )

    def __str__(self) -> str:
        """The one way to write it."""
        parts = (self.method, *self.wrappers, *filter(None, [self.correction]))
        return "+".join(map(str, parts))

    @property
    def kind(self) -> type[Method]:
        """The class of the innermost method."""
        return METHODS[self.method.name]

    @property
    def hubs(self) -> Hubs | None:
        """What `Session(..., hubs=)` takes."""
        return None if self.correction is None else _CORRECTIONS[HUBS](**self.correction.settings)

    def make(self, defaults: Mapping[str, Any] | None = None) -> Method:
        """The method itself; `defaults` are settings for the innermost, where the text has none.

        A wrapper that the method has built in becomes a setting of the method, unless the text
        gives either of them settings.
        """
        if self.method.name == DEFAULT:
            raise BadInput(
                f'"{DEFAULT}" is not a method but a session without one: Session(encoder, gallery).'
            )
        settings, around = dict(defaults or {}), []
        for wrapper in self.wrappers:
            instead = self.kind.built_in.get(str(wrapper), {})
            if instead and not instead.keys() & self.method.settings.keys():
                settings.update(instead)
            else:
                around.append(wrapper)
        method = self.kind(**{**settings, **self.method.settings})
        for wrapper in around:
            wrap: Any = WRAPPERS[wrapper.name]
            method = wrap(method, **wrapper.settings)
        method.check()
        return method


def canonical(spec: str) -> str:
    """The one way to write what a user may write in several.

    >>> canonical("rest: mining=False, gap=false")
    'rest:gap=false,mining=false'
    """
    return str(Spec.read(spec))


def _name(text: str) -> str:
    return text.partition(":")[0].strip()


def _part(text: str, table: Mapping[str, type[Any]]) -> Part:
    name, colon, given = text.strip().partition(":")
    if table is METHODS:
        check_known("method", name, [DEFAULT, *table])
    kind = table[name]
    settings: dict[str, Any] = {}
    for pair in given.split(",") if colon else ():
        key, equals, value = (side.strip() for side in pair.partition("="))
        if not equals:
            raise BadInput(
                f'"{text}": got "{pair}", expected setting=value, as in {name}:lr=0.001.'
            )
        if key in settings:
            raise BadInput(f'"{text}": {key} is given twice.')
        settings[key] = _value(name, kind, key, value)
    return Part(name, settings)


def _value(name: str, kind: type[Any], key: str, text: str) -> Any:
    """The value of a setting, of the type that the method's field has."""
    known = sayable(kind)
    check_known(f"setting of {name}", key, known)
    for hint in known[key]:
        try:
            return _as(hint, text)
        except ValueError:
            continue
    raise BadInput(f'{name}: {key} is "{text}", expected {described(known[key])}.')


def _as(hint: Any, text: str) -> Any:
    """The text as a value of this type, or a ValueError."""
    if get_origin(hint) is Literal:
        return get_args(hint)[get_args(hint).index(text)]
    if hint is NoneType or hint is bool:
        words = {"none": None} if hint is NoneType else _BOOLEANS
        if text.lower() not in words:
            raise ValueError
        return words[text.lower()]
    return hint(text)


def _written(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
