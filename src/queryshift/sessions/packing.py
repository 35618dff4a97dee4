"""Values as JSON and named tensors, and back: what a session file is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor

from queryshift.errors import BadFile, BadInput
from queryshift.methods import METHODS, WRAPPERS
from queryshift.methods.base import Method
from queryshift.methods.wrapper import Wrapper


def packed(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """JSON for a number, tensor, container or dataclass; its tensors go into `tensors`."""
    if isinstance(value, Tensor):
        tensors[name] = value.clone()
        return {"tensor": name}
    if is_dataclass(value) and not isinstance(value, type):
        inner = {f.name: getattr(value, f.name) for f in fields(value)}
        return {"fields": packed(inner, name, tensors)["mapping"]}
    if isinstance(value, Mapping):
        return {"mapping": {k: packed(v, f"{name}.{k}", tensors) for k, v in value.items()}}
    if isinstance(value, list | tuple):
        return {"list": [packed(v, f"{name}.{i}", tensors) for i, v in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise BadInput(
        f"cannot save {name}, a {type(value).__name__}: keep tensors, numbers, text, lists, "
        "mappings and dataclasses of them in a method's memory."
    )


def unpacked(stored: Any, like: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The value that was packed; `like` is a fresh one, whose types dataclasses in it take."""
    if not isinstance(stored, dict):
        return stored
    if "tensor" in stored:
        return tensors[stored["tensor"]]
    if "fields" in stored:
        values = {
            name: unpacked(value, getattr(like, name), tensors)
            for name, value in stored["fields"].items()
        }
        return replace(like, **values)
    if "list" in stored:
        values_of = [unpacked(value, None, tensors) for value in stored["list"]]
        return tuple(values_of) if isinstance(like, tuple) else values_of
    known = like if isinstance(like, Mapping) else {}
    return {
        name: unpacked(value, known.get(name), tensors) for name, value in stored["mapping"].items()
    }


def packed_method(method: Method, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """A method as its name in the tables and its fields; wrapped methods nest."""
    inner = getattr(method, "method", None)
    values = {f.name: getattr(method, f.name) for f in fields(method) if f.name != "method"}
    known = {cls: name for table in (METHODS, WRAPPERS) for name, cls in table.items()}
    return {
        "name": known.get(type(method)),
        "class": type(method).__qualname__,
        "fields": packed(values, f"method.{type(method).__name__}", tensors)
        if type(method) in known
        else None,
        "inner": None if inner is None else packed_method(inner, tensors),
    }


def unpacked_method(
    stored: dict[str, Any], tensors: Mapping[str, Tensor], given: Method | None
) -> Method:
    """The method of a file, or the one that was passed."""
    if given is not None:
        if type(given).__qualname__ != stored["class"]:
            raise BadFile(
                f"the state was saved with the method {stored['class']}, "
                f"got {type(given).__qualname__}: pass one like it."
            )
        return given
    if stored["name"] is None or _own_inside(stored):
        raise BadFile(
            f"the state was saved with a method of your own ({stored['class']}): pass it as "
            "`method` when loading."
        )
    values = unpacked(stored["fields"], None, tensors)
    if stored["inner"] is None:
        return METHODS[stored["name"]](**values)
    wrapper = WRAPPERS[stored["name"]]
    if not issubclass(wrapper, Wrapper):
        raise TypeError(f"{stored['name']} wraps no method")
    return wrapper(unpacked_method(stored["inner"], tensors, None), **values)


def _own_inside(stored: dict[str, Any]) -> bool:
    """Whether a wrapped method is in no table."""
    inner = stored["inner"]
    return inner is not None and (inner["name"] is None or _own_inside(inner))
