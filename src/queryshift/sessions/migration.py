"""Session files of format 1, read as if they were of format 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .history_columns import packed_history

RENAMED_MEASURES = {"uniformity": "spread"}
STATE = ("adapted", "memory", "watched", "batches", "resets")


def migrated(
    about: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Description and tensors in the present format.

    In format 1 the parts of a state stood among the others and each batch of the history was a
    JSON object. The count of ordinary batches was called `resting`, or was not there yet.
    """
    if about["format"] > 1:
        return dict(about), dict(tensors)
    held = dict(tensors)
    streak = about.get("ordinary_streak", about.get("resting", 0))
    state = {name: about[name] for name in STATE} | {"ordinary_streak": streak}
    rows = [
        {RENAMED_MEASURES.get(name, name): value for name, value in row.items()}
        for row in about["history"]
    ]
    return {**about, "state": state, "history": packed_history(rows, held)}, held
