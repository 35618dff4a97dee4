"""A prepared batch of queries, its forwards, and what one step sees of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder, Params
from queryshift.encoders.matcher import Matching
from queryshift.encoders.prepared import Prepared, count, each, joined, take
from queryshift.galleries import EngineGallery, Searchable
from queryshift.galleries.exclusions import exclusions_of_rows

from .forward import (
    Backward,
    Cotangents,
    Forward,
    floating_tensors,
    in_memory,
    sum_params,
    vector_jacobian_products,
)
from .pool import DEPTH, Pool

Outputs = tuple[Tensor, Prepared | None]  # vectors, and what a matcher reads


class Batch:
    """One prepared batch: what all of its forwards share.

    `whole` says that all candidates of a gallery in memory will be scored anyway, so that hits are
    taken from those scores. `source` is the source model's forward, computed on first use.
    """

    def __init__(
        self,
        encoder: Encoder,
        gallery: Searchable,
        shared: Any,
        exclude: Tensor | None = None,
        chunk: int | None = None,
        matching: Matching | None = None,
        depth: int = DEPTH,
        whole: bool = False,
    ) -> None:
        self.encoder, self.shared = encoder, shared
        self.whole = whole and in_memory(gallery)
        self._searched, self._depth = gallery, depth
        self.gallery = self._pooled()  # an engine is searched once for all steps
        self.exclude, self.chunk, self.matching = exclude, chunk, matching
        self.size = count(shared)
        self.source: Forward | None = None
        if chunk is not None and chunk < self.size:
            encoder.check_apart("leave chunk out, or give the layer running statistics")

    def __len__(self) -> int:
        return self.size

    def taking(self, rows: Tensor) -> Batch:
        """A batch of the queries that `rows` (B,) marks."""
        places = rows.nonzero()[:, 0]  # on the CPU: a GPU would wait to count them
        shared = each(self.shared, lambda one: one[places.to(one.device, non_blocking=True)])
        exclude = None if self.exclude is None else exclusions_of_rows(rows, self.exclude)
        same = (self.chunk, self.matching, self._depth, self.whole)
        part = Batch(self.encoder, self._searched, shared, exclude, *same)
        if self.source is not None and self.matching is None:
            part.source = self.source.taking(rows)
        return part

    def forward(self, params: Params, graph: bool) -> Forward:
        """One forward of the batch through `params`, with a graph for gradients on request."""
        leaves = params
        if graph:
            leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
        names = self.encoder.parameter_names
        inside = {name: value for name, value in leaves.items() if name in names}
        *others, last = self._pieces()
        with torch.set_grad_enabled(graph and bool(inside)):
            outputs = [_detached(self._run(inside, piece)) for piece in others]
            outputs.append(self._run(inside, last))
        vectors, readings = _joined([_detached(one) for one in outputs])
        return Forward(
            vectors=_leaf(vectors, graph),
            gallery=self.gallery,
            exclude=self.exclude,
            direct_params={name: leaves[name] for name in self._direct_names(params)},
            backward=self._backward(inside, outputs[-1]) if graph and inside else None,
            matching=self.matching,
            readings=None if readings is None else each(readings, lambda one: _leaf(one, graph)),
            whole=self.whole,
        )

    def source_forward(self, params: Params) -> Forward:
        """The source model's forward, computed once.

        It searches an engine by itself: the steps' pool may lack what the source finds.
        """
        if self.source is None:
            forward = self.forward(params, graph=False)
            self.source = forward.moved(forward.vectors, self._pooled())
        return self.source

    def _pooled(self) -> Searchable:
        """The gallery; an engine's as a pool that is searched once."""
        engine = self._searched
        return Pool(engine, self._depth) if isinstance(engine, EngineGallery) else engine

    def _direct_names(self, params: Params) -> list[str]:
        """Parameters that a loss may depend on outside the encoder."""
        shared_names = () if self.matching is None else self.matching.matcher.shared_names
        inside = self.encoder.parameter_names
        return [name for name in params if name not in inside or name in shared_names]

    def _pieces(self) -> list[Any]:
        """The batch in pieces of at most `chunk` queries."""
        if self.chunk is None or self.chunk >= self.size:
            return [self.shared]
        starts = range(0, self.size, self.chunk)
        return [take(self.shared, slice(i, i + self.chunk)) for i in starts]

    def _run(self, params: Params, piece: Any) -> Outputs:
        if self.matching is None:
            return self.encoder.through(params, piece), None
        return self.encoder.through_for_matcher(params, piece)

    def _backward(self, params: Params, last: Outputs) -> Backward:
        """Products through the forward, piece by piece, so that only one piece's graph exists.

        The last piece's graph exists in the first call; the others are made again. The graph of a
        batch in one piece stays.
        """
        pieces, alive = self._pieces(), [last]
        sizes = [count(piece) for piece in pieces]

        def outputs(number: int) -> tuple[Tensor, ...]:
            if alive and number == len(pieces) - 1:
                return _tensors(alive[0] if number == 0 else alive.pop())
            with torch.enable_grad():
                return _tensors(self._run(params, pieces[number]))

        def backward(cotangents: Sequence[Cotangents]) -> tuple[Params, ...]:
            totals: tuple[Params, ...] = tuple({} for _ in cotangents)
            for number in reversed(range(len(pieces))):
                rows = [
                    tuple(torch.split(slope, sizes)[number] for slope in slopes)
                    for slopes in cotangents
                ]
                of_piece = vector_jacobian_products(outputs(number), rows, params)
                totals = tuple(sum_params(*both) for both in zip(totals, of_piece, strict=True))
            return totals

        return backward


def _tensors(outputs: Outputs) -> tuple[Tensor, ...]:
    vectors, readings = outputs
    return vectors, *floating_tensors(readings)


def _detached(outputs: Outputs) -> Outputs:
    vectors, readings = outputs
    return vectors.detach(), None if readings is None else each(readings, Tensor.detach)


def _joined(outputs: Sequence[Outputs]) -> Outputs:
    """Copies: an encoder may write its next result to the same memory."""
    vectors, readings = zip(*outputs, strict=True)
    return torch.cat(vectors), None if readings[0] is None else joined(readings)


def _leaf(value: Tensor, graph: bool) -> Tensor:
    return value.detach().requires_grad_(graph and value.is_floating_point())


class StepView:
    """What one step sees of a batch: its forward now, and the source model's."""

    def __init__(self, batch: Batch, params: Params, source: Params, seed: int = 0) -> None:
        self.batch, self.params, self.source_params, self.seed = batch, params, source, seed
        self._now: Forward | None = None

    @property
    def at_source(self) -> bool:
        """Whether nothing has been learnt yet."""
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
        """The source model's forward, without a graph, once per batch."""
        return self.batch.source_forward(self.source_params)

    def at(self, params: Params) -> Forward:
        """The forward through other parameters, with a graph."""
        return self.batch.forward(params, graph=True)
