"""The state of a session, as a value, and what makes one: encoder, method and settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder, Params
from queryshift.encoders.matcher import Matching
from queryshift.errors import BadInput
from queryshift.galleries import Searchable
from queryshift.methods.base import Method, check_count
from queryshift.methods.losses import SourceLike
from queryshift.methods.optimiser import Adapted, Layout
from queryshift.retrieval.answer import SHORTLIST
from queryshift.retrieval.forward import Batch, Forward, fitting
from queryshift.retrieval.hubness.query_bank import QueryBank
from queryshift.retrieval.uncertainty import no_doubt
from queryshift.support.deprecation import stored_as
from queryshift.support.threads import lazy_property

from .reference_queries import ReferenceQueries
from .session_settings import Settings


def nothing_found(device: torch.device | str = "cpu") -> Tensor:
    """Keys and top-1 results (0, 2) of no queries."""
    return torch.empty(0, 2, dtype=torch.long, device=device)


@dataclass(frozen=True)
class State:
    """Everything that a session has learnt. A value: every batch makes a new one."""

    layout: Layout
    adapted: Adapted
    memory: Any  # the method's
    watched: SourceLike  # source-like pairs, for the statistics of methods that keep none
    batches: int = 0
    resets: int = 0
    reference_streak: int = stored_as("ordinary_streak", default=0)  # normal batches in a row
    chances: Tensor = field(default_factory=lambda: torch.empty(0))  # of the latest queries
    found: Tensor = field(default_factory=nothing_found)  # by the source model, for those
    rate: float = 0.0  # learning rate found on the stream; 0: none yet
    hubs: QueryBank | None = None  # what hub correction remembers; None: it is off

    @lazy_property
    def learnt(self) -> Params:
        """The adapted parameters by name, views of one vector."""
        return self.layout.split(self.adapted.values)

    @lazy_property
    def finite(self) -> bool:
        """Whether the adapted parameters hold no NaN and no infinity."""
        return bool(torch.isfinite(self.adapted.values).all())

    def narrowed(self, reached: Params) -> State:
        """The state without parameters that a gradient does not reach."""
        names = [name for name in self.layout.shapes if name in reached]
        layout = Layout.of({name: self.learnt[name] for name in names})
        return replace(self, layout=layout, adapted=Adapted.fresh(layout.flat(self.learnt)))


@dataclass(frozen=True)
class Adaptation:
    """Encoder, method and settings: all that `advance` needs beside a state and a batch."""

    encoder: Encoder
    method: Method
    settings: Settings
    source: Params
    matching: Matching | None = None
    reference: ReferenceQueries | None = None  # the guard's sample of normal queries
    finds_rate: bool = False  # nobody set a learning rate: the stream gives it

    @classmethod
    def of(
        cls,
        encoder: Encoder,
        gallery: Searchable,
        method: Method,
        settings: Settings,
        matching: Matching | None = None,
        finds_rate: bool = False,
    ) -> Self:
        """Collect what the method adapts, the matcher's parameters included."""
        if settings.gather is not None and settings.gather < method.smallest_batch:
            raise BadInput(
                f"gather is {settings.gather}, but {method.name} learns from at least "
                f"{method.smallest_batch} queries at a time: gather more (gather=16)."
            )
        reference = None if settings.guard is None else settings.guard.reference
        if reference is not None:
            reference.check_fits(encoder, gallery)
        source = dict(method.adapts(encoder, gallery))
        if matching is not None and method.adapts_matcher:
            source |= matching.matcher.own_params()
        device = encoder.device
        source = {name: value.to(device) for name, value in source.items()}
        finds_rate = finds_rate and method.rate_of_stream
        return cls(encoder, method, settings, source, matching, reference, finds_rate)

    @property
    def depth(self) -> int:
        """Hits to fetch from an engine at once: at least as many as are fused or reranked."""
        fused = 0 if self.settings.guard is None else SHORTLIST
        corrected = 0 if self.settings.hubs is None else self.settings.hubs.depth
        matched = 0 if self.matching is None else self.matching.matcher.rerank
        return max(self.settings.depth, fused, corrected, matched)

    def fresh(self, gallery: Searchable) -> State:
        """The state before the first batch."""
        layout, device = Layout.of(self.source), self.encoder.device
        return State(
            layout=layout,
            adapted=Adapted.fresh(layout.flat(self.source)),
            memory=self.method.start(gallery, device),
            watched=SourceLike.empty(gallery.centroids(1).to(device)),
            chances=no_doubt(device),
            found=nothing_found(device),
            hubs=self._no_queries(gallery),
        )

    def _no_queries(self, gallery: Searchable) -> QueryBank | None:
        """What hub correction remembers before the first batch."""
        if self.settings.hubs is None:
            return None
        return QueryBank.empty(gallery.dimension, self.encoder.device)

    def params(self, state: State) -> Params:
        """The current parameters; the source's where nothing was learnt or no gradient reaches."""
        if state.adapted.updates == 0:
            return self.source
        return {**self.source, **state.layout.split(state.adapted.values)}

    def source_forward(self, batch: Batch) -> Forward:
        """The source model's forward, computed once per batch."""
        return fitting(batch.source_forward(self.source))

    def restarted(self, state: State, gallery: Searchable) -> State:
        """The state after a reset: source parameters, fresh memories, counts kept."""
        return replace(
            state,
            adapted=Adapted.fresh(state.layout.flat(self.source)),
            memory=self.method.start(gallery, self.encoder.device),
            rate=0.0,
            hubs=self._no_queries(gallery),
            resets=state.resets + 1,
        )

    def moved(self, state: State, gallery: Searchable) -> State:
        """The state for another gallery: memories forget the old candidates."""
        memory, found = self.method.moved(state.memory, gallery), state.found[:0]
        hubs = None if state.hubs is None else state.hubs.moved(gallery)
        return replace(state, memory=memory, found=found, hubs=hubs)


def check_state(state: State, fresh: State) -> None:
    """Refuse counts, shapes and types that do not fit a fresh state of the same session."""
    for name, value in vars(fresh).items():
        if type(value) is int:
            check_count(getattr(state, name), name)
    _check_layout(state.layout, fresh.layout)
    _check_policy(state, fresh)
    _check_adapted(state.adapted, state.layout, fresh.adapted)
    if not isinstance(state.watched, SourceLike):
        raise ValueError("watched holds no source-like pairs")
    state.watched.check()


def _check_layout(layout: Layout, fresh: Layout) -> None:
    """Parameters must be among those that the method adapts, with their shapes."""
    for name, shape in layout.shapes.items():
        if fresh.shapes.get(name) != shape:
            raise ValueError(
                f"{name} has shape {shape}, expected {fresh.shapes.get(name, 'no such parameter')}"
            )


def _check_policy(state: State, fresh: State) -> None:
    """Chances are probabilities, and the learning rate is a number of at least 0."""
    chances = state.chances
    if not isinstance(chances, Tensor) or chances.dtype != fresh.chances.dtype:
        raise ValueError("the chances of the latest queries have the wrong type")
    if chances.ndim != 1 or not bool(((chances >= 0) & (chances <= 1)).all()):
        raise ValueError("the chances of the latest queries are not between 0 and 1")
    found = state.found
    if not isinstance(found, Tensor) or found.dtype != torch.long or found.shape[1:] != (2,):
        raise ValueError("the top-1 results of the latest queries have the wrong type or shape")
    if not isinstance(state.rate, float) or not math.isfinite(state.rate) or state.rate < 0:
        raise ValueError(f"rate is {state.rate!r}, not a learning rate")


def _check_adapted(adapted: Adapted, layout: Layout, fresh: Adapted) -> None:
    check_count(adapted.updates, "updates")
    size = sum(map(prod, layout.shapes.values()))
    for name in ("values", "first", "second"):
        vector, expected = getattr(adapted, name), getattr(fresh, name)
        if not isinstance(vector, Tensor) or tuple(vector.shape) != (size,):
            raise ValueError(f"{name} is not a vector of {size} numbers")
        if vector.dtype != expected.dtype:
            raise ValueError(f"{name} is of {vector.dtype}, expected {expected.dtype}")
    if not bool(torch.isfinite(adapted.values).all()):
        raise ValueError("values hold NaN or infinity")
    if bool(adapted.first.isnan().any()) or not bool((adapted.second >= 0).all()):
        raise ValueError("the optimiser's moments hold NaN or negative squares")
