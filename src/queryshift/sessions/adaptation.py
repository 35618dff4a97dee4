"""What a session adapts, and how: encoder, method, settings and source parameters, as a value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from queryshift.encoders.encoder import Encoder, Params
from queryshift.encoders.matcher import Matching
from queryshift.errors import BadInput
from queryshift.galleries import Searchable
from queryshift.methods.base import Method
from queryshift.methods.optimiser import Adapted, Layout
from queryshift.methods.source_like import SourceLike
from queryshift.retrieval.batch import Batch
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.fusion import SHORTLIST
from queryshift.retrieval.reranking import MatcherStage, Stage
from queryshift.retrieval.unsureness import no_doubt
from queryshift.retrieval.vector_checks import fitting

from .ordinary import Ordinary
from .settings import Settings
from .state import State


@dataclass(frozen=True)
class Adaptation:
    """Encoder, method and settings: all that `advance` needs beside a state and a batch."""

    encoder: Encoder
    method: Method
    settings: Settings
    source: Params
    matching: Matching | None = None
    stages: tuple[Stage, ...] = ()
    ordinary: Ordinary | None = None  # what ordinary queries look like, where a guard knows
    finds_rate: bool = False  # nobody named a learning rate: the stream gives it

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
        """An adaptation of what the method adapts, the matcher's part included if it has one."""
        if settings.gather is not None and settings.gather < method.smallest_batch:
            raise BadInput(
                f"gather is {settings.gather}, but {method.name} learns from at least "
                f"{method.smallest_batch} queries at a time: gather more (gather=16)."
            )
        ordinary = None if settings.guard is None else settings.guard.ordinary
        if ordinary is not None:
            ordinary.check_fits(encoder, gallery)
        source = dict(method.adapts(encoder, gallery))
        if matching is not None and method.adapts_matcher:
            source |= matching.matcher.own_params()
        device = encoder.device
        source = {name: value.to(device) for name, value in source.items()}
        hubs: tuple[Stage, ...] = () if settings.hubs is None else (settings.hubs,)
        stages = hubs if matching is None else (*hubs, MatcherStage())
        finds_rate = finds_rate and method.rate_of_stream
        return cls(encoder, method, settings, source, matching, stages, ordinary, finds_rate)

    @property
    def depth(self) -> int:
        """Hits to ask an engine for at once: no fewer than are fused or ranked anew."""
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
            stages={stage.name: stage.start(gallery, device) for stage in self.stages},
        )

    def params(self, state: State) -> Params:
        """The parameters in force: the source's own at first, and always for those out of reach."""
        if state.adapted.updates == 0:
            return self.source
        return {**self.source, **state.layout.split(state.adapted.values)}

    def source_forward(self, batch: Batch) -> Forward:
        """The forward through the source's parameters, computed once per batch."""
        return fitting(batch.source_forward(self.source))

    def restarted(self, state: State, gallery: Searchable) -> State:
        """Back to the source, with fresh memories; the counts go on."""
        device = self.encoder.device
        return replace(
            state,
            adapted=Adapted.fresh(state.layout.flat(self.source)),
            memory=self.method.start(gallery, device),
            rate=0.0,
            stages={stage.name: stage.start(gallery, device) for stage in self.stages},
            resets=state.resets + 1,
        )

    def moved(self, state: State, gallery: Searchable) -> State:
        """The state with what method and stages remember of another gallery's candidates gone."""
        stages = {
            stage.name: stage.moved(state.stages.get(stage.name), gallery) for stage in self.stages
        }
        return replace(state, memory=self.method.moved(state.memory, gallery), stages=stages)
