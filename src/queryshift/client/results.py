"""What the service answers, as values; fields that a newer service adds are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self, TypeAlias

Id: TypeAlias = str | int
Json: TypeAlias = Mapping[str, Any]


class _Record:
    """A dataclass read from a JSON object by the names of its fields."""

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """The value that a JSON object of the service says; an absent field is None."""
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        return cls(**{name: cls._value(name, data.get(name)) for name in names})

    @classmethod
    def _value(cls, name: str, value: Any) -> Any:
        return datetime.fromisoformat(value) if name in ("time", "last_seen") and value else value


@dataclass(frozen=True)
class Hit(_Record):
    """A candidate that was found, and its score."""

    id: Id
    score: float


@dataclass(frozen=True)
class QueryResult(_Record):
    """The answer to one query.

    Attributes:
        hits: what was found, best first.
        source: what the model finds without what was learnt, where the service says so.
        adapted: what it finds with what was learnt, where the service says so.
        error: why this query alone was not answered, else None.
    """

    hits: list[Hit]
    source: list[Hit] | None
    adapted: list[Hit] | None
    error: str | None

    @classmethod
    def _value(cls, name: str, value: Any) -> Any:
        if name == "error":
            return value.get("detail") if isinstance(value, Mapping) else value
        if value is None:
            return [] if name == "hits" else None
        return [Hit.from_json(hit) for hit in value]

    @property
    def ids(self) -> list[Id]:
        """The ids of the hits, best first."""
        return [hit.id for hit in self.hits]


@dataclass(frozen=True)
class SearchResult(_Record):
    """The answers to the queries of one search.

    Attributes:
        request_id: names this search in the service's logs and in `feedback`.
        tenant: who asked.
        mode: "live", "shadow" or "frozen".
        answers: one result for each query.
    """

    request_id: str
    tenant: str
    mode: str
    answers: list[QueryResult]

    @classmethod
    def _value(cls, name: str, value: Any) -> Any:
        return [QueryResult.from_json(row) for row in value] if name == "answers" else value

    @property
    def ids(self) -> list[list[Id]]:
        """The ids found for each query, best first."""
        return [result.ids for result in self.answers]


@dataclass(frozen=True)
class Snapshot(_Record):
    """A kept state of a tenant: its name, when it was taken, and after how many batches."""

    name: str
    time: datetime
    batches: int


@dataclass(frozen=True)
class ClickMeans(_Record):
    """Mean of 1 / rank of what was clicked, under the source's and the adapted answers.

    Attributes:
        source: the mean under the source's answers.
        adapted: the mean under the adapted answers.
        clicks: how many were counted.
        better: "source" or "adapted"; None where the clicks cannot tell.
    """

    source: float
    adapted: float
    clicks: int
    better: str | None


@dataclass(frozen=True)
class TenantSummary(_Record):
    """A tenant in the list of a collection's tenants."""

    tenant: str
    mode: str
    queries: int
    last_seen: datetime | None


@dataclass(frozen=True)
class Tenant(_Record):
    """A tenant: its mode, what its session did so far, and how its queries lie.

    Attributes:
        tenant: its name.
        mode: "live", "shadow" or "frozen".
        method: how it adapts.
        queries: queries answered.
        batches: batches they came in.
        updates: batches that were learnt from.
        drops: updates left out because others waited.
        pending: updates that wait.
        report: the session's own report, as it is.
        shift: shift score, spread, gap, entropy and agreement of the last batches.
        guard: how often the guard went back to the source, and when.
        snapshots: the kept states.
        clicks: what clicks say about source and adapted answers, once there are some.
    """

    tenant: str
    mode: str
    method: str
    queries: int
    batches: int
    updates: int
    drops: int
    pending: int
    report: Json | None
    shift: dict[str, float | None] | None
    guard: Json | None
    snapshots: list[Snapshot]
    clicks: ClickMeans | None

    @classmethod
    def _value(cls, name: str, value: Any) -> Any:
        if name == "snapshots":
            return [Snapshot.from_json(row) for row in value or []]
        return ClickMeans.from_json(value) if name == "clicks" and value else value


@dataclass(frozen=True)
class HistoryRow(_Record):
    """One batch of a tenant: when it was answered, how its queries lay, and what was done."""

    batch: int
    time: datetime
    queries: int
    shift_score: float | None
    spread: float | None
    gap: float | None
    entropy: float | None
    agreement: float | None
    updated: bool
    dropped: int
    guard: str | None


@dataclass(frozen=True)
class Collection(_Record):
    """A gallery with its model, as the service offers it.

    Attributes:
        name: its name in every call.
        queries: what a query is: "image", "text" and so on, a list where it is composed.
        candidates: how many can be found.
        dimension: of the vectors.
        method: how its tenants adapt.
        keeps_queries: whether the operator lets the service keep the latest queries.
        tenants: how many there are.
    """

    name: str
    queries: str | list[str]
    candidates: int
    dimension: int
    method: str
    keeps_queries: bool
    tenants: int
