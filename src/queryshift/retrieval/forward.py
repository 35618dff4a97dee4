"""A batch of queries and its forwards: query vectors, what they find, and gradients of losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder, Params
from queryshift.encoders.matcher import Matching
from queryshift.encoders.prepared import Prepared, check_finite, count, each, joined, take, tensors
from queryshift.errors import BadInput, GalleryMismatch
from queryshift.galleries import EngineGallery, Hits, Searchable
from queryshift.galleries.exclusions import exclusions_of_rows, mask_excluded
from queryshift.galleries.memory.exact_gallery import ExactGallery
from queryshift.galleries.memory.exact_search import (
    all_scores,
    best_vectors,
    grouped_topk,
    in_memory,
    left_for_all,
    similarity,
)
from queryshift.support.torch_modes import retain_compiled_graphs

from .pool import DEPTH, Pool

UNIT_TOLERANCE = 1e-2
Outputs = tuple[Tensor, Prepared | None]  # vectors, and what a matcher reads
Cotangents = tuple[Tensor, ...]  # one per output of the encoder
Backward = Callable[[Sequence[Cotangents]], tuple[Params, ...]]


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
        vectors, readings = _joined(outputs)
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
                return _differentiable(*(alive[0] if number == 0 else alive.pop()))
            with torch.enable_grad():
                return _differentiable(*self._run(params, pieces[number]))

        def backward(cotangents: Sequence[Cotangents]) -> tuple[Params, ...]:
            totals: tuple[Params, ...] = tuple({} for _ in cotangents)
            for number in reversed(range(len(pieces))):
                rows = [
                    tuple(torch.split(slope, sizes)[number] for slope in slopes)
                    for slopes in cotangents
                ]
                of_piece = _products(outputs(number), rows, params)
                totals = tuple(_sum(*both) for both in zip(totals, of_piece, strict=True))
            return totals

        return backward


@dataclass(frozen=True, eq=False)
class Forward:
    """Query vectors of one forward, and what they find: what a loss is computed from.

    The vectors are leaves: a loss is differentiated *at the vectors*, and `gradients` propagates
    its derivative back to the parameters. Results are cached; `detached` copies share the hits,
    which hold no graph.
    """

    vectors: Tensor  # (B, D)
    gallery: Searchable
    exclude: Tensor | None = None  # (P, 2) pairs of query and excluded position
    direct_params: Params = field(default_factory=dict)  # outside the encoder (TSA, matcher)
    backward: Backward | None = None  # cotangents at the vectors -> the encoder's gradients
    matching: Matching | None = None  # scores pairs, if the session has a matcher
    readings: Prepared | None = None  # what the matcher reads of each query, leaves too
    whole: bool = False  # take hits from the scores of all candidates, which are needed anyway
    hit_cache: dict[str, Any] = field(default_factory=dict, repr=False)
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.vectors)

    def hits(self, count: int) -> Hits:
        """The best `count` candidates of each query, on the queries' device, without a graph."""
        return self.at_least(count).top(count)

    def at_least(self, count: int) -> Hits:
        """The best `count` candidates of each query, or more if they have been found already."""
        kept: tuple[int, Hits] | None = self.hit_cache.get("hits")
        if kept is None or kept[0] < count:
            kept = self.hit_cache["hits"] = (count, self._found(count))
        return kept[1]

    @property
    def every_score(self) -> Tensor:
        """Similarity (B, N) to every candidate in memory, excluded ones too, without a graph."""
        if "scores" not in self.hit_cache:
            vectors = self.vectors.detach()
            wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
            candidates = self.gallery.vectors.to(wide.device)
            self.hit_cache["scores"] = all_scores(wide, candidates)
        kept: Tensor = self.hit_cache["scores"]
        return kept

    @property
    def nearest(self) -> Tensor:
        """The vector (B, D) of each query's nearest candidate; the best one if it has several."""
        if "nearest" not in self.cache:
            first = self.hits(1).vectors[:, 0]
            self.cache["nearest"] = best_vectors(self.vectors, first)
        kept: Tensor = self.cache["nearest"]
        return kept

    @property
    def scores(self) -> Tensor:
        """Similarity (B, N) to the whole gallery, with a graph to the vectors only."""
        if "scores" not in self.cache:
            with torch.enable_grad():  # a later caller may need the graph
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

    @torch.no_grad()
    def _found(self, count: int) -> Hits:
        """The best `count` candidates, from all scores if they are needed anyway, or a search."""
        gallery = self.gallery
        if not isinstance(gallery, ExactGallery) or not (self.whole or "scores" in self.hit_cache):
            return gallery.search(self.vectors.detach(), count, self.exclude)
        scores = self.every_score
        if self.exclude is not None:
            scores = mask_excluded(scores.clone(), self.exclude)  # in place
        count = min(count, left_for_all(scores.shape[1], self.exclude))
        best, positions = grouped_topk(scores, count)
        return Hits(positions, best, gallery)

    def summed(self, shares: Tensor) -> Tensor:
        """Each candidate's share of the batch, from a share (B, N) for each column of `scores`."""
        return shares.sum(dim=0)

    @property
    def fixed_columns(self) -> bool:
        """Whether a column of `scores` is the same candidate in every batch."""
        return True

    @property
    def matcher_input(self) -> tuple[Matching, Prepared]:
        """The session's matcher and what it reads of each query; an error without a matcher."""
        if self.matching is None or self.readings is None:
            raise BadInput(
                "there is no matcher to score pairs: make the session with "
                "matcher=matcher.over(items)."
            )
        return self.matching, self.readings

    def match(self, positions: Tensor) -> Tensor:
        """Logits (B, k, 2) of each query with candidates (B, k), by the session's matcher."""
        matching, readings = self.matcher_input
        return matching.logits(self.direct_params, readings, self.matcher_places(positions))

    def matcher_places(self, positions: Tensor) -> Tensor:
        """The matcher's index of the candidates at these positions (B, k)."""
        if self.matching is None or self.matching.places is None:
            return positions
        return self.matching.places_of(self.gallery.ids_at(positions)).to(positions.device)

    def gradients(self, *losses: Tensor) -> tuple[Params, ...]:
        """The gradient of each loss, by one product through the encoder each.

        Parameters that the forward does not use are left out.
        """
        outputs = _differentiable(self.vectors, self.readings)
        leaves = (*outputs, *self.direct_params.values())
        with retain_compiled_graphs():
            slopes = [_slopes(loss, leaves) for loss in losses]
            direct = [dict(zip(self.direct_params, s[len(outputs) :], strict=True)) for s in slopes]
            if self.backward is None:
                return tuple(direct)
            indirect = self.backward([s[: len(outputs)] for s in slopes])
        return tuple(_sum(*both) for both in zip(indirect, direct, strict=True))

    def moved(self, vectors: Tensor, gallery: Searchable | None = None) -> Forward:
        """The same queries with other vectors, and perhaps another gallery."""
        return replace(
            self, vectors=vectors, gallery=gallery or self.gallery, hit_cache={}, cache={}
        )

    def taking(self, rows: Tensor) -> Forward:
        """The queries that `rows` (B,) marks, without cached results or matcher readings."""
        places = rows.nonzero()[:, 0].to(self.vectors.device, non_blocking=True)
        return replace(
            self.moved(self.vectors.detach()[places]),
            exclude=None if self.exclude is None else exclusions_of_rows(rows, self.exclude),
            backward=None,
            readings=None,
        )

    def detached(self) -> Forward:
        """The same without any graph; hits are kept."""
        return replace(
            self,
            vectors=self.vectors.detach(),
            direct_params={name: value.detach() for name, value in self.direct_params.items()},
            readings=None if self.readings is None else each(self.readings, Tensor.detach),
            backward=None,
            cache={key: v.detach() for key, v in self.cache.items() if hasattr(v, "detach")},
        )


def _differentiable(vectors: Tensor, readings: Prepared | None) -> tuple[Tensor, ...]:
    """The vectors, and those tensors of a matcher's readings that can have a derivative."""
    every = () if readings is None else tensors(readings)
    return vectors, *(tensor for tensor in every if tensor.is_floating_point())


def _detached(outputs: Outputs) -> Outputs:
    vectors, readings = outputs
    return vectors.detach(), None if readings is None else each(readings, Tensor.detach)


def _joined(outputs: Sequence[Outputs]) -> Outputs:
    """Copies: an encoder may write its next result to the same memory."""
    vectors, readings = zip(*outputs, strict=True)
    return torch.cat(vectors), None if readings[0] is None else joined(readings)


def _leaf(value: Tensor, graph: bool) -> Tensor:
    return value.detach().requires_grad_(graph and value.is_floating_point())


def _slopes(loss: Tensor, leaves: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The derivative of a loss at each leaf; zero if the loss does not depend on it."""
    slopes = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    pairs = zip(slopes, leaves, strict=True)
    return tuple(torch.zeros_like(leaf) if slope is None else slope for slope, leaf in pairs)


def _products(
    outputs: tuple[Tensor, ...], cotangents: Sequence[Cotangents], params: Params
) -> list[Params]:
    """Vector-Jacobian products, without parameters that the outputs do not depend on."""
    products: list[Params] = []
    for slopes in cotangents:
        pairs = [(o, s) for o, s in zip(outputs, slopes, strict=True) if o.requires_grad]
        if not pairs:
            products.append({})
            continue
        with torch.enable_grad():  # passing grad_outputs to torch would import sympy: 0.3 s
            along = torch.stack([(output * slope).sum() for output, slope in pairs]).sum()
        every = tuple(params.values())
        grads = torch.autograd.grad(along, every, retain_graph=True, allow_unused=True)
        named = zip(params, grads, strict=True)
        products.append({name: grad for name, grad in named if grad is not None})
    return products


def _sum(left: Params, right: Params) -> Params:
    """The sum of two gradients; a name in one of them only is kept."""
    return {**left, **{n: left[n] + value if n in left else value for n, value in right.items()}}


def fitting(forward: Forward) -> Forward:
    """Refuse query vectors of another dimension than the gallery's."""
    shape, expected = tuple(forward.vectors.shape), forward.gallery.dimension
    if len(shape) != 2 or shape[1] != expected:
        raise GalleryMismatch(
            f"query vectors have shape {shape}, the gallery has {expected} dimensions: was it "
            "built by another model?"
        )
    return forward


def checked(forward: Forward) -> Forward:
    """Refuse query vectors that are not finite or not of unit length."""
    vectors = fitting(forward).vectors.detach()
    lengths = torch.linalg.vector_norm(vectors, dim=1).tolist()  # one wait for the GPU
    if all(abs(length - 1) <= UNIT_TOLERANCE for length in lengths):  # NaN is not
        return forward
    check_finite(vectors, "the vector of query")
    raise BadInput(
        f"query vectors have length {min(lengths):.3g} to {max(lengths):.3g}, "
        "expected unit length: normalise them in the encoder's forward()."
    )
