"""Session files: tensors and names only, nothing that can be executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.matcher import Matching
from queryshift.errors import BadFile, BadInput
from queryshift.galleries import EngineGallery, Searchable
from queryshift.methods import METHODS, WRAPPERS
from queryshift.methods.base import Method
from queryshift.methods.optimiser import Layout
from queryshift.methods.wrapper import Wrapper
from queryshift.retrieval.hubness.hub_correction import Hubs
from queryshift.retrieval.hubness.query_bank import QueryBank
from queryshift.support.deprecation import stored_name
from queryshift.support.tensor_files import packed_bytes, read, write

from .batch_stats import BatchStats
from .describe import TUNABLE, origins
from .guard import Guard
from .history import packed_history, unpacked_history
from .migration import migrated
from .reference_queries import ReferenceQueries
from .session_settings import Settings
from .state import State, check_state

KIND = "session"
STAGES, HUBS = "stages", "hubs"  # keys of what hub correction remembers
CHANGEABLE = (
    *("mode", "guard", "hubs", "gather", "worker", "chunk", "depth", "steps", "lr"),
    *("score_from", "history", "name"),
)
"""Settings that may change when a session is loaded."""


@dataclass(frozen=True)
class Snapshot:
    """A session at one moment: references to values that never change, so it costs nothing."""

    encoder: Encoder
    gallery: Searchable
    matching: Matching | None
    method: Method
    origins: Mapping[str, str]
    settings: Settings
    state: State
    history: Sequence[BatchStats] | None


@dataclass(frozen=True)
class StoredSession:
    """What a session file holds; `state` checks it against a fresh state."""

    path: str | Path | bytes
    method: Method
    origins: Mapping[str, str]
    settings: Settings
    about: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    def state(self, fresh: State, gallery: Searchable) -> State:
        """The stored state, checked against a fresh one of the loading session."""
        with _naming(self.path):
            stored = self.about["state"]
            if missing := _without_default(fresh) - {"layout"} - stored.keys():
                raise KeyError(min(missing))
            shapes = {name: tuple(shape) for name, shape in self.about["shapes"].items()}
            names = {stored_name(field): field.name for field in fields(fresh)}
            values = {
                names[key]: unpacked(value, getattr(fresh, names[key]), self.tensors)
                for key, value in stored.items()
                if key != STAGES
            }
            state = replace(fresh, **{**values, "layout": Layout(shapes)})
            moved = self._renumbered(gallery)
            if moved:
                memory = self.method.moved(state.memory, gallery)
                state = replace(state, memory=memory, found=fresh.found)
            check_state(state, fresh)
            self.method.check_memory(state.memory, gallery)
            return replace(state, hubs=self._hubs(fresh.hubs, gallery, moved))

    def _hubs(self, bank: QueryBank | None, gallery: Searchable, moved: bool) -> QueryBank | None:
        """What hub correction remembers; fresh if the session was saved without it."""
        if bank is None:
            return None
        stored = self.about["state"].get(STAGES, {"mapping": {}})["mapping"]
        if HUBS in stored:
            bank = unpacked(stored[HUBS], bank, self.tensors)
        if not isinstance(bank, QueryBank):
            raise ValueError("the memory of hubs is not a bank of queries")
        if moved:
            bank = bank.moved(gallery)
        bank.check(gallery)
        return bank

    def _renumbered(self, gallery: Searchable) -> bool:
        """Whether positions may belong to other candidates than when the session was saved."""
        if isinstance(gallery, EngineGallery):  # it numbers candidates as it sees them
            return True
        return bool(self.about.get("gallery", known_by := gallery.version) != known_by)

    def history(self) -> list[BatchStats]:
        """The stored history; empty if the session was saved without one."""
        with _naming(self.path):
            if self.about["history"] is None:
                return []
            return unpacked_history(self.about["history"], self.tensors)


def write_state(path: str | Path, taken: Snapshot) -> None:
    """Write a session to a file, atomically.

    Args:
        path: The file.
        taken: The session.
    """
    write(path, KIND, *_parts(taken))


def state_bytes(taken: Snapshot) -> bytes:
    """What `write_state` writes, as bytes."""
    return packed_bytes(KIND, *_parts(taken))


def _parts(taken: Snapshot) -> tuple[dict[str, Tensor], dict[str, Any]]:
    state, tensors = taken.state, dict[str, Tensor]()
    about = {
        "fingerprint": taken.encoder.fingerprint(),
        "matcher": _matcher_print(taken.matching),
        "gallery": taken.gallery.version,
        "method": packed_method(taken.method, tensors),
        "lr": taken.method.rate,
        "origins": dict(taken.origins),
        "settings": _plain(taken.settings),
        "shapes": {name: list(shape) for name, shape in state.layout.shapes.items()},
        "state": {
            stored_name(field): packed(getattr(state, field.name), field.name, tensors)
            for field in fields(state)
            if field.name not in ("layout", "hubs")
        }
        | {STAGES: packed({} if state.hubs is None else {HUBS: state.hubs}, STAGES, tensors)},
        "history": None
        if taken.history is None
        else packed_history(map(vars, taken.history), tensors),
    }
    return tensors, about


def read_state(
    path: str | Path | bytes,
    encoder: Encoder,
    method: Method | None,
    matching: Matching | None,
    overrides: Mapping[str, Any] | None = None,
) -> StoredSession:
    """Read one session file for this encoder.

    Args:
        path: The file, or its bytes.
        encoder: The encoder that the session was made with.
        method: A method of the user's own; None for the library's methods.
        matching: The matcher that the session was made with, if any.
        overrides: Settings to change, of those in `CHANGEABLE`.

    Returns:
        Method, settings, state and history.
    """
    overrides = dict(overrides or {})
    if strange := overrides.keys() - set(CHANGEABLE):
        raise BadInput(
            f"got {min(strange)}={overrides[min(strange)]!r} for a saved session, expected one of "
            f"{', '.join(CHANGEABLE)}: start another session to change the rest."
        )
    raw, about = read(path, KIND, mapped=False)
    _check_made_with(path, about, encoder, matching)
    lr = overrides.pop("lr", None)
    with _naming(path):
        about, raw = migrated(about, raw)
        tensors = {name: tensor.to(encoder.device) for name, tensor in raw.items()}
        known = _origins(about, encoder, method) | ({} if lr is None else {"lr": "the user"})
        known = {name: origin for name, origin in known.items() if name not in overrides}
        stored = unpacked_method(about["method"], tensors, method)
        stored = stored.resolved(encoder, about["lr"])  # a user's own method has no rate yet
        settings = _settings(about["settings"])
    settings = replace(settings, **overrides)
    return StoredSession(path, stored.resolved(encoder, lr), known, settings, about, tensors)


def _check_made_with(
    source: str | Path | bytes,
    about: Mapping[str, Any],
    encoder: Encoder,
    matching: Matching | None,
) -> None:
    """Refuse a file of another model or matcher."""
    path = _named(source)
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


def _without_default(value: State) -> set[str]:
    """Fields without a default: a file must have them."""
    return {
        field.name
        for field in fields(value)
        if field.default is MISSING and field.default_factory is MISSING
    }


@contextmanager
def _naming(source: str | Path | bytes) -> Iterator[None]:
    """Turn errors of missing or wrong parts into one `BadFile` that names the file."""
    path = _named(source)
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise BadFile(f'"{path}" lacks a part of a session ({error!r}): save it again.') from error


def _named(source: str | Path | bytes) -> str:
    return "stored bytes" if isinstance(source, bytes) else str(source)


def _matcher_print(matching: Matching | None) -> str | None:
    return None if matching is None else matching.matcher.fingerprint()


def _origins(about: Mapping[str, Any], encoder: Encoder, given: Method | None) -> dict[str, str]:
    """Where settings come from; older files do not say."""
    stored = about.get("origins", dict.fromkeys(TUNABLE, "the saved file"))
    known = {name: str(stored[name]) for name in {*TUNABLE, *stored}}
    return known if given is None else {**origins(given, encoder, None), "lr": known["lr"]}


def _plain(value: Any) -> dict[str, Any]:
    """The fields of settings, and of settings within them, by their keys in files."""
    held = {stored_name(field): getattr(value, field.name) for field in fields(value)}
    return {key: _plain(one) if is_dataclass(one) else one for key, one in held.items()}


def _settings(values: dict[str, Any]) -> Settings:
    guard, hubs = values["guard"], values.get("hubs")  # older files have none
    made = {
        "guard": None if guard is None else _guard(guard),
        "hubs": None if hubs is None else Hubs(**hubs),
    }
    return Settings(**{**values, **made})


def _guard(values: dict[str, Any]) -> Guard:
    names = {stored_name(field): field.name for field in fields(Guard)}
    made = {names[key]: value for key, value in values.items()}
    if made.get("reference") is not None:  # older files have no such key
        made["reference"] = ReferenceQueries(**made["reference"])
    return Guard(**made)


def packed(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """JSON for a number, tensor, container or dataclass; tensors go into `tensors`."""
    if isinstance(value, Tensor):
        tensors[name] = value.clone()
        return {"tensor": name}
    if is_dataclass(value) and not isinstance(value, type):
        inner = {stored_name(f): getattr(value, f.name) for f in fields(value)}
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
    """The value that was packed; `like` is a fresh one that has its dataclasses' types."""
    if not isinstance(stored, dict):
        return stored
    if "tensor" in stored:
        return tensors[stored["tensor"]]
    if "fields" in stored:
        names = {stored_name(field): field.name for field in fields(like)}
        values = {
            names[key]: unpacked(value, getattr(like, names[key]), tensors)
            for key, value in stored["fields"].items()
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
    """A method as its name and fields; wrapped methods nest."""
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
    """The method of a file, or the one given by the user."""
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
    """Whether a wrapped method is the user's own."""
    inner = stored["inner"]
    return inner is not None and (inner["name"] is None or _own_inside(inner))
