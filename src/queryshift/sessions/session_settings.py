"""The settings of a session, apart from its method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from queryshift.errors import BadInput, unknown
from queryshift.retrieval.hubness.hub_correction import Hubs
from queryshift.retrieval.pool import DEPTH
from queryshift.support.setting_fields import check_values, setting

from .guard import Guard

ScoreFrom = Literal["last_forward", "before", "after"]
Mode = Literal["live", "shadow"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a session; each is a keyword argument of `Session`."""

    steps: int = setting(3, "TCR's code", "updates per batch")
    score_from: ScoreFrom = setting(
        "last_forward",
        "TCR's code",
        "when a batch is answered: before its updates, after them, or before the last one",
    )
    gather: int | None = setting(
        None, "ours", "answer at once, adapt whenever this many queries have come"
    )
    worker: bool = setting(False, "ours", "adapt to gathered queries in the background")
    chunk: int | None = setting(None, "ours", "queries per graph: limits memory, same gradient")
    depth: int = setting(DEPTH, "ours", "hits to fetch from a search engine for each query")
    guard: Guard | None = setting(Guard(), "ours", "limits what queries can do; None: no limits")
    hubs: Hubs | None = setting(None, "ours", "hub correction of the answers")
    mode: Mode = setting("live", "ours", '"shadow": the source answers while the session adapts')
    watch_angle: bool = setting(False, "ours", "measure drift and angles to the general direction")
    seed: int = setting(0, "ours", "random seed of the method")
    history: int = setting(65_536, "ours", "batches whose statistics are kept")
    name: str | None = setting(None, "ours", "name of the session in log records and events")

    def __post_init__(self) -> None:
        for name, choices in (("score_from", ScoreFrom), ("mode", Mode)):
            if getattr(self, name) not in get_args(choices):
                raise unknown(name, getattr(self, name), get_args(choices))
        check_values(self, "session")
        for name in ("steps", "gather", "chunk", "depth", "history"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadInput(f"{name} is {value!r}, expected a whole number of at least 1.")
        if not (self.guard is None or isinstance(self.guard, Guard)):
            raise BadInput(f"guard is {self.guard!r}, expected a guard or none: guard=Guard().")
        if not (self.hubs is None or isinstance(self.hubs, Hubs)):
            raise BadInput(f"hubs is {self.hubs!r}, expected hub correction or none: hubs=Hubs().")
        if not (self.name is None or isinstance(self.name, str)):
            raise BadInput(f"name is {self.name!r}, expected text or none.")
        if self.worker and self.gather is None:
            raise BadInput(
                "worker=True adapts to gathered queries, but gather is None: "
                "say how many to gather (gather=16), or leave worker out."
            )


SETTINGS = tuple(field.name for field in fields(Settings))
LEFT_OPEN = ("score_from", "hubs")  # settings whose value may be "default"


def given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among the arguments of `Session`, without those left at "default"."""
    for other in arguments["others"]:
        raise unknown("setting of a session", other, ["lr", "matcher", *SETTINGS])
    named = {name: arguments[name] for name in SETTINGS}
    open_ = {name for name in LEFT_OPEN if isinstance(named[name], str)}
    return {
        name: value for name, value in named.items() if not (name in open_ and value == "default")
    }
