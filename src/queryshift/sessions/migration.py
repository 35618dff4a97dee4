"""Session files of earlier versions, converted to the present format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .history import packed_history

RENAMED_MEASURES = {"uniformity": "spread"}
STATE = ("adapted", "memory", "watched", "batches", "resets")
GONE_OF_STATE = ("recent", "lead", "by_source")
GONE_OF_INFOMAX = ("remembered", "early", "late", "share")
GONE_OF_MEMORY = {"infomax": ("claims",)}
DECAY_BEFORE = 1e-4  # InfoMax's default weight decay then
GONE_OF_SETTINGS = ("choose",)
GONE_OF_GUARD = ("drift", "pull", "surer", "smallest_batch", "repeats", "anchor")


def migrated(
    about: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Description and tensors in the present format, without what only earlier policies used."""
    held = dict(tensors)
    about = _of_format_1(about, held) if about["format"] == 1 else dict(about)
    method, name, early = _method(about["method"])
    state = _without(about["state"], GONE_OF_STATE)
    state["rate"] = state.get("rate", 0.0) * early
    state["memory"] = _without_fields(state["memory"], "fields", GONE_OF_MEMORY.get(name, ()))
    settings = _settings(about["settings"])
    rate = about["lr"] * early
    return {**about, "lr": rate, "state": state, "method": method, "settings": settings}, held


def _method(packed: Mapping[str, Any]) -> tuple[dict[str, Any], str, float]:
    """A packed method, the innermost method's name, and a factor on its learning rates.

    InfoMax's rate is now that of the first batch, which was `early` times as large.
    """
    name, inner, fields, early = packed["name"], packed["inner"], packed["fields"], 1.0
    if name == "infomax" and "early" in (kept := dict(fields["mapping"])):
        early = kept["early"]
        if kept["weight_decay"] == DECAY_BEFORE:
            del kept["weight_decay"]
        fields = {**fields, "mapping": _without(kept, GONE_OF_INFOMAX)}
    if inner is not None:
        inner, name, early = _method(inner)
    return {**packed, "fields": fields, "inner": inner}, name, early


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that still exist: an old session goes on under the present policy."""
    kept = _without(values, GONE_OF_SETTINGS)
    guard = kept["guard"]
    if guard is not None and any(name in guard for name in GONE_OF_GUARD):
        kept["guard"] = _without(guard, GONE_OF_GUARD)
    return kept


def _of_format_1(about: Mapping[str, Any], held: dict[str, Tensor]) -> dict[str, Any]:
    """Format 1 as format 2.

    In format 1 a state's parts were top-level keys, and each batch of the history was a JSON
    object. The count of unshifted batches was called `resting` or was missing.
    """
    streak = about.get("ordinary_streak", about.get("resting", 0))
    state = {name: about[name] for name in STATE} | {"ordinary_streak": streak}
    rows = [
        {RENAMED_MEASURES.get(name, name): value for name, value in row.items()}
        for row in about["history"]
    ]
    return {**about, "state": state, "history": packed_history(rows, held)}


def _without_fields(packed: Any, kind: str, names: tuple[str, ...]) -> Any:
    """A packed value without some of its fields."""
    if not names or not isinstance(packed, dict) or kind not in packed:
        return packed
    return {**packed, kind: _without(packed[kind], names)}


def _without(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}
