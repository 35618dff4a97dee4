"""One batch at one step, as a method sees it."""

from __future__ import annotations

from queryshift.encoders.encoder import Params

from .batch import Batch
from .forward import Forward


class StepView:
    """One batch at one step: its forward through the current parameters, and the source's."""

    def __init__(self, batch: Batch, params: Params, source: Params, seed: int = 0) -> None:
        self.batch, self.params, self.source_params, self.seed = batch, params, source, seed
        self._now: Forward | None = None

    @property
    def at_source(self) -> bool:
        """Whether nothing has been learnt yet: the parameters are the source's own."""
        return self.params is self.source_params

    @property
    def now(self) -> Forward:
        """The forward through the current parameters, with a graph; computed once."""
        if self._now is None:
            self._now = self.at(self.params)
            if self.at_source and self.batch.source is None:
                self.batch.source = self._now.detached()
        return self._now

    @property
    def source(self) -> Forward:
        """The forward through the source's parameters, without a graph, once per batch."""
        return self.batch.source_forward(self.source_params)

    def at(self, params: Params) -> Forward:
        """The forward through other parameters, with a graph."""
        return self.batch.forward(params, graph=True)
