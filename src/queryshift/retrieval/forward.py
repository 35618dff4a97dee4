"""A batch of queries and its forwards: vectors, what they find, and gradients of losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder, Params
from queryshift.encoders.matcher import Matching
from queryshift.encoders.prepared import (
    Prepared,
    check_finite,
    count,
    each,
    joined,
    take,
    tensors,
)
from queryshift.errors import BadInput, GalleryMismatch
from queryshift.galleries import Hits, Searchable
from queryshift.galleries.exclusions import mask_excluded
from queryshift.support.torch_modes import retain_compiled_graphs

from .pool import DEPTH, pooled

Cotangents = tuple[Tensor, ...]  # one per output of the encoder
Backward = Callable[[Sequence[Cotangents]], tuple[Params, ...]]
Outputs = tuple[Tensor, Prepared | None]  # vectors, and what a matcher reads
UNIT_TOLERANCE = 1e-2


@dataclass(frozen=True, eq=False)
class Forward:
    """Query vectors of one forward, and what they find: what a loss is computed from.

    The vectors are leaves: a loss is differentiated *at the vectors*, and `gradients` carries its
    derivative back to the parameters. What is computed from them is kept: hits, which hold no
    graph, are shared with `detached` copies; `cache` is not.
    """

    vectors: Tensor  # (B, D)
    gallery: Searchable
    exclude: Tensor | None = None  # (P, 2): pairs of query and position that must not meet
    direct_params: Params = field(default_factory=dict)  # that a loss depends on (TSA, matcher)
    backward: Backward | None = None  # cotangents at the vectors -> the encoder's gradients
    matching: Matching | None = None  # scores pairs, where the session has a matcher
    readings: Prepared | None = None  # what it reads of each query, leaves too
    hit_cache: dict[str, tuple[int, Hits]] = field(default_factory=dict, repr=False)
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.vectors)

    def hits(self, count: int) -> Hits:
        """The best `count` candidates of each query, on the queries' device, without a graph."""
        asked, hits = self.hit_cache.get("hits", (0, None))
        if hits is None or asked < count:
            hits = self.gallery.search(self.vectors.detach(), count, self.exclude)
            self.hit_cache["hits"] = (count, hits)
        return hits.top(count) if asked > count else hits

    @property
    def nearest(self) -> Tensor:
        """The vector (B, D) of each query's nearest candidate, the best of it if it has several."""
        if "nearest" not in self.cache:
            first = self.hits(1).vectors[:, 0]
            self.cache["nearest"] = best_vectors(self.vectors, first)
        kept: Tensor = self.cache["nearest"]
        return kept

    @property
    def scores(self) -> Tensor:
        """Similarity (B, N) to the whole gallery, with a graph to the vectors only."""
        if "scores" not in self.cache:
            with torch.enable_grad():  # the first caller may need no graph, a later one will
                self.cache["scores"] = self.scored(self.vectors)
        kept: Tensor = self.cache["scores"]
        return kept

    def scored(self, queries: Tensor, change: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Similarity (B, N) of other vectors of the queries, to candidates changed by `change`."""
        candidates = self.gallery.vectors.to(queries)
        scores = similarity(queries, candidates if change is None else change(candidates))
        return scores if self.exclude is None else mask_excluded(scores, self.exclude)

    @torch.no_grad()
    def all_scores(self) -> Tensor:
        """Similarity (B, N) to every candidate without a graph, in float32 or wider."""
        vectors = self.vectors.detach()
        return self.scored(vectors.to(torch.promote_types(vectors.dtype, torch.float32)))

    def summed(self, shares: Tensor) -> Tensor:
        """Each candidate's share of the batch, from a share (B, N) for each column of `scores`."""
        return shares.sum(dim=0)

    @property
    def fixed_columns(self) -> bool:
        """Whether a column of `scores` is the same candidate in every batch."""
        return True

    def match(self, positions: Tensor) -> Tensor:
        """Logits (B, k, 2) of each query with candidates (B, k), by the session's matcher."""
        assert self.matching is not None and self.readings is not None
        places = self.matcher_places(positions)
        return self.matching.logits(self.direct_params, self.readings, places)

    def matcher_places(self, positions: Tensor) -> Tensor:
        """Where the matcher keeps the candidates at these positions (B, k)."""
        if self.matching is None or self.matching.places is None:
            return positions
        return self.matching.places_of(self.gallery.ids_at(positions)).to(positions.device)

    def gradients(self, *losses: Tensor) -> tuple[Params, ...]:
        """The gradient of each loss: one product through the encoder for each.

        Names that the forward does not reach are left out.
        """
        outputs = (self.vectors, *_floating_tensors(self.readings))
        leaves = (*outputs, *self.direct_params.values())
        with retain_compiled_graphs():
            slopes = [_slopes(loss, leaves) for loss in losses]
            direct = [dict(zip(self.direct_params, s[len(outputs) :], strict=True)) for s in slopes]
            if self.backward is None:
                return tuple(direct)
            indirect = self.backward([s[: len(outputs)] for s in slopes])
        return tuple(_sum_params(*both) for both in zip(indirect, direct, strict=True))

    def moved(self, vectors: Tensor, gallery: Searchable | None = None) -> Forward:
        """The same queries with other vectors, perhaps before another gallery."""
        return replace(
            self, vectors=vectors, gallery=gallery or self.gallery, hit_cache={}, cache={}
        )

    def taking(self, rows: Tensor) -> Forward:
        """Those queries that `rows` (B,) says, to be searched with again; nothing for a matcher."""
        return replace(
            self.moved(self.vectors.detach()[rows]),
            exclude=_exclusions_of(rows, self.exclude),
            backward=None,
            readings=None,
        )

    def detached(self) -> Forward:
        """The same without any graph; hits that were searched for are kept."""
        return replace(
            self,
            vectors=self.vectors.detach(),
            direct_params={name: value.detach() for name, value in self.direct_params.items()},
            readings=None if self.readings is None else each(self.readings, Tensor.detach),
            backward=None,
            cache={key: v.detach() for key, v in self.cache.items() if hasattr(v, "detach")},
        )


class Batch:
    """One prepared batch: what all of its forwards share. Nothing of it changes.

    `source` are the parameters of the source model; its forward is computed once, when it is
    asked for.
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
    ) -> None:
        self.encoder, self.shared = encoder, shared
        self.gallery = pooled(gallery, depth)  # an engine is searched once for all steps
        self._own_gallery = partial(pooled, gallery, depth)
        self.exclude, self.chunk, self.matching = exclude, chunk, matching
        self.size = count(shared)
        self.source: Forward | None = None  # computed once, then kept
        if chunk is not None and chunk < self.size:
            encoder.check_apart("leave chunk out, or give the layer running statistics")

    def __len__(self) -> int:
        return self.size

    def taking(self, rows: Tensor) -> Batch:
        """A batch of those queries that `rows` (B,) says, and of none of the others."""
        gallery, depth = self._own_gallery.args
        shared = each(self.shared, lambda one: one[rows.to(one.device)])
        exclude = _exclusions_of(rows, self.exclude)
        part = Batch(self.encoder, gallery, shared, exclude, self.chunk, self.matching, depth)
        if self.source is not None and self.matching is None:
            part.source = self.source.taking(rows)
        return part

    def forward(self, params: Params, graph: bool) -> Forward:
        """One forward of the batch through `params`, with a graph for gradients if asked."""
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
        )

    def source_forward(self, params: Params) -> Forward:
        """The forward through the source's parameters, computed once.

        It searches an engine for itself: the steps' pool may lack what the source would find.
        """
        if self.source is None:
            forward = self.forward(params, graph=False)
            self.source = forward.moved(forward.vectors, self._own_gallery())
        return self.source

    def _direct_names(self, params: Params) -> list[str]:
        """Parameters a loss may depend on other than through the encoder."""
        twins = () if self.matching is None else self.matching.matcher.twins
        inside = self.encoder.parameter_names
        return [name for name in params if name not in inside or name in twins]

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
        """Products over the forward, piece by piece, so that only one piece's graph exists.

        The last piece's is at hand in the first call; the others' are made again. A whole batch is
        one piece, whose graph stays.
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
                products = _products(outputs(number), rows, params)
                totals = tuple(_sum_params(*both) for both in zip(totals, products, strict=True))
            return totals

        return backward


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


def _exclusions_of(rows: Tensor, exclude: Tensor | None) -> Tensor | None:
    """The excluded pairs (P, 2) of some queries, counted among themselves."""
    if exclude is None:
        return None
    kept = exclude[rows[exclude[:, 0]]]
    return torch.stack((rows.cumsum(0)[kept[:, 0]] - 1, kept[:, 1]), dim=1)


def _sum_params(left: Params, right: Params) -> Params:
    """All names of both; where both have one, the sum."""
    return {**left, **{n: left[n] + value if n in left else value for n, value in right.items()}}


def _floating_tensors(prepared: Prepared | None) -> tuple[Tensor, ...]:
    """Those tensors of a prepared batch that a derivative may be taken at."""
    every = () if prepared is None else tensors(prepared)
    return tuple(tensor for tensor in every if tensor.is_floating_point())


def similarity(queries: Tensor, candidates: Tensor) -> Tensor:
    """Best similarity (B, N) of queries (B, D) to candidates of several vectors (N, V, D)."""
    scores = queries @ candidates.flatten(0, 1).T
    if candidates.shape[1] == 1:
        return scores
    return scores.view(len(queries), *candidates.shape[:2]).amax(dim=2)


def best_vectors(queries: Tensor, candidates: Tensor) -> Tensor:
    """Of each query's own candidate (B, V, D), the vector (B, D) nearest to the query."""
    if candidates.shape[1] == 1:
        return candidates[:, 0]
    with torch.no_grad():
        best = (candidates @ queries[:, :, None]).squeeze(2).argmax(dim=1)
    return candidates[torch.arange(len(candidates), device=candidates.device), best]


def _slopes(loss: Tensor, leaves: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The derivative of a loss at each leaf, zero where it does not depend on it."""
    slopes = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    pairs = zip(slopes, leaves, strict=True)
    return tuple(torch.zeros_like(leaf) if slope is None else slope for slope, leaf in pairs)


def fitting(forward: Forward) -> Forward:
    """Refuse query vectors that are not of the gallery's dimension."""
    shape, expected = tuple(forward.vectors.shape), forward.gallery.dimension
    if len(shape) != 2 or shape[1] != expected:
        raise GalleryMismatch(
            f"query vectors have shape {shape}, the gallery has {expected} dimensions: was it "
            "built by another model?"
        )
    return forward


def checked(forward: Forward) -> Forward:
    """Refuse query vectors that cannot be searched with."""
    vectors = fitting(forward).vectors.detach()
    lengths = torch.linalg.vector_norm(vectors, dim=1).tolist()  # one wait for all of them
    if all(abs(length - 1) <= UNIT_TOLERANCE for length in lengths):  # NaN is not
        return forward
    check_finite(vectors, "the vector of query")
    raise BadInput(
        f"query vectors have length {min(lengths):.3g} to {max(lengths):.3g}, "
        "expected unit length: normalise them in the encoder's forward()."
    )


def _products(
    outputs: tuple[Tensor, ...], cotangents: Sequence[Cotangents], params: Params
) -> tuple[Params, ...]:
    """Products over the graph of one forward, which nothing here keeps alive afterwards."""
    return tuple(_product(outputs, slopes, params) for slopes in cotangents)


def _product(outputs: tuple[Tensor, ...], slopes: Cotangents, params: Params) -> Params:
    """One vector-Jacobian product; names that the outputs do not depend on are left out."""
    pairs = [(o, s) for o, s in zip(outputs, slopes, strict=True) if o.requires_grad]
    if not pairs:
        return {}
    with torch.enable_grad():  # handing torch the slopes as such would import sympy: 0.3 s
        along = torch.stack([(output * slope).sum() for output, slope in pairs]).sum()
    grads = torch.autograd.grad(along, tuple(params.values()), retain_graph=True, allow_unused=True)
    named = zip(params, grads, strict=True)
    return {name: grad for name, grad in named if grad is not None}


def _tensors(outputs: Outputs) -> tuple[Tensor, ...]:
    vectors, readings = outputs
    return vectors, *_floating_tensors(readings)


def _detached(outputs: Outputs) -> Outputs:
    vectors, readings = outputs
    return vectors.detach(), None if readings is None else each(readings, Tensor.detach)


def _joined(outputs: Sequence[Outputs]) -> Outputs:
    """All in memory of their own: an encoder may write its next result where this one is."""
    vectors, readings = zip(*outputs, strict=True)
    return torch.cat(vectors), None if readings[0] is None else joined(readings)


def _leaf(value: Tensor, graph: bool) -> Tensor:
    return value.detach().requires_grad_(graph and value.is_floating_point())
