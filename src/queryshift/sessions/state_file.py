"""Session states on disk: tensors and names only, nothing that could run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.matcher import Matching
from queryshift.errors import BadFile, BadInput
from queryshift.galleries import Searchable
from queryshift.methods import METHODS, WRAPPERS
from queryshift.methods.base import Method
from queryshift.methods.optimiser import Adapted, Layout
from queryshift.methods.source_like import SourceLike
from queryshift.methods.wrapper import Wrapper
from queryshift.support.tensor_files import read, write

from .batch_stats import BatchStats
from .describe import TUNABLE, origins
from .guard import Guard
from .ordinary import Ordinary
from .settings import Settings
from .step import State

if TYPE_CHECKING:
    from .session import Session

KIND = "session"


@dataclass(frozen=True)
class Stored:
    """What a state file holds."""

    method: Method
    origins: Mapping[str, str]
    settings: Settings
    state: State
    history: list[BatchStats]


def write_state(path: str | Path, session: Session) -> None:
    """Write a session's state, whole or not at all."""
    adaptation, state = session.adaptation, session.state
    tensors: dict[str, Tensor] = {}
    about = {
        "fingerprint": adaptation.encoder.fingerprint(),
        "matcher": _matcher_print(adaptation.matching),
        "gallery": _gallery_print(session.gallery),
        "method": _packed_method(adaptation.method, tensors),
        "lr": adaptation.method.rate,
        "origins": dict(session.origins),
        "settings": asdict(adaptation.settings),
        "shapes": {name: list(shape) for name, shape in state.layout.shapes.items()},
        "adapted": _packed(state.adapted, "adapted", tensors),
        "memory": _packed(state.memory, "memory", tensors),
        "watched": _packed(state.watched, "watched", tensors),
        "batches": state.batches,
        "resets": state.resets,
        "ordinary_streak": state.ordinary_streak,
        "history": [asdict(shift) for shift in session.history],
    }
    write(path, KIND, tensors, about)


def read_state(
    path: str | Path,
    encoder: Encoder,
    gallery: Searchable,
    method: Method | None,
    matching: Matching | None,
) -> Stored:
    """Read one state for this encoder; a method that is in no table must be passed."""
    tensors, about = read(path, KIND)
    if about.get("matcher") != _matcher_print(matching):
        raise BadFile(
            f'"{path}" was saved with matcher {about.get("matcher")}, got '
            f"{_matcher_print(matching)}: pass the matcher it was saved with."
        )
    if about.get("fingerprint") != encoder.fingerprint():
        raise BadFile(
            f'"{path}" was saved with another model (fingerprint {about.get("fingerprint")}, this '
            f"{type(encoder).__name__} has {encoder.fingerprint()}): load it with that model."
        )
    tensors = {name: tensor.to(encoder.device) for name, tensor in tensors.items()}
    try:
        known = _origins(about, encoder, method)
        method = _unpacked_method(about["method"], tensors, method)
        method = method.resolved(encoder, about["lr"])  # a method of one's own knows no rate yet
        settings = _settings(about["settings"])
        watched = SourceLike.empty(gallery.centroids(1))
        state = State(
            layout=Layout({name: tuple(shape) for name, shape in about["shapes"].items()}),
            adapted=_unpacked(
                about["adapted"], Adapted.fresh(torch.empty(0, device="cpu")), tensors
            ),
            memory=_unpacked(about["memory"], method.start(gallery, encoder.device), tensors),
            watched=_unpacked(about["watched"], watched, tensors),
            batches=about["batches"],
            resets=about["resets"],
            ordinary_streak=about.get("ordinary_streak", 0),  # files of before there was such
        )
        _check_fits(state)
        if about.get("gallery", known_by := _gallery_print(gallery)) != known_by:
            state = replace(state, memory=method.moved(state.memory, gallery))
        history = [BatchStats(**one) for one in about["history"]]
        return Stored(method, known, settings, state, history)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadFile(f'"{path}" lacks a part of a session ({error!r}): save it again.') from error


def _matcher_print(matching: Matching | None) -> str | None:
    return None if matching is None else matching.matcher.fingerprint()


def _gallery_print(gallery: Searchable) -> str:
    """A short hash of how many candidates there are and of a sample of their ids."""
    ids = gallery.ids
    sample = [ids[place] for place in range(0, len(ids), max(1, len(ids) // 256))]
    return blake2b(repr((len(ids), sample)).encode(), digest_size=16).hexdigest()


def _check_fits(state: State) -> None:
    """Refuse vectors that are not as long as the tensors they hold."""
    size = sum(map(prod, state.layout.shapes.values()))
    for name in ("values", "first", "second"):
        if tuple(getattr(state.adapted, name).shape) != (size,):
            raise ValueError(f"{name} is not a vector of {size} numbers")


def _packed(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """JSON for a number, tensor, container or dataclass; its tensors go into `tensors`."""
    if isinstance(value, Tensor):
        tensors[name] = value.clone()
        return {"tensor": name}
    if is_dataclass(value) and not isinstance(value, type):
        inner = {f.name: getattr(value, f.name) for f in fields(value)}
        return {"fields": _packed(inner, name, tensors)["mapping"]}
    if isinstance(value, Mapping):
        return {"mapping": {k: _packed(v, f"{name}.{k}", tensors) for k, v in value.items()}}
    if isinstance(value, list | tuple):
        return {"list": [_packed(v, f"{name}.{i}", tensors) for i, v in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise BadInput(
        f"cannot save {name}, a {type(value).__name__}: keep tensors, numbers, text, lists, "
        "mappings and dataclasses of them in a method's memory."
    )


def _unpacked(packed: Any, like: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The value that was packed; `like` is a fresh one, whose type a dataclass takes."""
    if not isinstance(packed, dict):
        return packed
    if "tensor" in packed:
        return tensors[packed["tensor"]]
    if "fields" in packed:
        return replace(
            like,
            **{
                name: _unpacked(value, getattr(like, name), tensors)
                for name, value in packed["fields"].items()
            },
        )
    if "list" in packed:
        found = [_unpacked(value, None, tensors) for value in packed["list"]]
        return tuple(found) if isinstance(like, tuple) else found
    return {name: _unpacked(value, None, tensors) for name, value in packed["mapping"].items()}


def _packed_method(method: Method, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """A method as its name in the tables and its fields; wrapped methods nest."""
    inner = getattr(method, "method", None)
    values = {f.name: getattr(method, f.name) for f in fields(method) if f.name != "method"}
    known = {cls: name for table in (METHODS, WRAPPERS) for name, cls in table.items()}
    return {
        "name": known.get(type(method)),
        "class": type(method).__qualname__,
        "fields": _packed(values, f"method.{type(method).__name__}", tensors)
        if type(method) in known
        else None,
        "inner": None if inner is None else _packed_method(inner, tensors),
    }


def _unpacked_method(
    packed: dict[str, Any], tensors: Mapping[str, Tensor], given: Method | None
) -> Method:
    """The method of a file, or the one that was handed over."""
    if given is not None:
        if type(given).__qualname__ != packed["class"]:
            raise BadFile(
                f"the state was saved with the method {packed['class']}, "
                f"got {type(given).__qualname__}: pass one like it."
            )
        return given
    if packed["name"] is None or _own_inside(packed):
        raise BadFile(
            f"the state was saved with a method of your own ({packed['class']}): pass it as "
            "`method` when loading."
        )
    values = _unpacked(packed["fields"], None, tensors)
    if packed["inner"] is None:
        return METHODS[packed["name"]](**values)
    wrapper = WRAPPERS[packed["name"]]
    assert issubclass(wrapper, Wrapper)
    return wrapper(_unpacked_method(packed["inner"], tensors, None), **values)


def _own_inside(packed: dict[str, Any]) -> bool:
    inner = packed["inner"]
    return inner is not None and (inner["name"] is None or _own_inside(inner))


def _origins(about: dict[str, Any], encoder: Encoder, given: Method | None) -> dict[str, str]:
    """Where the open settings come from; files of before this was kept do not say."""
    stored = about.get("origins", dict.fromkeys(TUNABLE, "the saved file"))
    known = {name: str(stored[name]) for name in TUNABLE}
    return known if given is None else {**origins(given, encoder, None), "lr": known["lr"]}


def _settings(values: dict[str, Any]) -> Settings:
    guard = values["guard"]
    return Settings(**{**values, "guard": None if guard is None else _guard(guard)})


def _guard(values: dict[str, Any]) -> Guard:
    ordinary = values.get("ordinary")  # files of before there were such have none
    return Guard(**{**values, "ordinary": None if ordinary is None else Ordinary(**ordinary)})
