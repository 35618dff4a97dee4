"""What a batch of queries finds in a gallery, forward through some parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder, Params
from queryshift.encoders.matcher import Matching
from queryshift.encoders.prepared import Prepared, count, each, joined, take, tensors
from queryshift.galleries import Hits, Searchable
from queryshift.galleries.hits import at_least_one
from queryshift.support.lazy import lazy_property
from queryshift.support.torch_modes import retain_compiled_graphs

Cotangents = tuple[Tensor, ...]  # one per output of the encoder
Backward = Callable[[Sequence[Cotangents]], tuple[Params, ...]]
Seen = tuple[Tensor, Prepared | None]  # vectors, and what a matcher reads


@dataclass
class Wanted:
    """How many hits were asked for of one answer: a session keeps this, and not the answer."""

    count: int = 0


@dataclass(frozen=True, eq=False)
class Forward:
    """Query vectors and what they find.

    The vectors are leaves, so that a loss is differentiated *at the vectors*; `gradients` carries
    its derivative back to the parameters.
    """

    vectors: Tensor  # (B, D)
    gallery: Searchable
    exclude: Tensor | None = None  # (P, 2): pairs of query and position that must not meet
    direct_params: Params = field(
        default_factory=dict
    )  # those a loss depends on directly (TSA, matcher)
    backward: Backward | None = None  # cotangents at the vectors -> gradients of the encoder's part
    hit_cache: dict[str, tuple[int, Hits]] = field(
        default_factory=dict, repr=False
    )  # searched once
    matching: Matching | None = None  # scores pairs, where the session has a matcher
    readings: Prepared | None = None  # what it reads of each query, leaves too
    wanted: Wanted = field(default_factory=Wanted, repr=False)

    def __len__(self) -> int:
        return len(self.vectors)

    def hits(self, count: int) -> Hits:
        """The best `count` candidates of each query, on the queries' device, without a graph."""
        asked, known = self.hit_cache.get("hits", (0, None))
        if known is None or asked < count:
            known = self.gallery.search(self.vectors.detach(), count, self.exclude)
            self.hit_cache["hits"] = (count, known)
        self.wanted.count = max(self.wanted.count, count)
        return known.top(count)

    def top(self, count: int) -> Hits:
        """The best `count` candidates of each query, on the CPU: what users get."""
        return self.hits(at_least_one(count)).to("cpu")

    @lazy_property
    def nearest(self) -> Tensor:
        """The vector (B, D) of each query's nearest candidate, the best of it if it has several."""
        return best_vectors(self.vectors, self.hits(1).vectors[:, 0])

    @lazy_property
    @torch.enable_grad()  # computed once, perhaps first by someone who needs no graph
    def scores(self) -> Tensor:
        """Similarity (B, N) to the whole gallery, with a graph to the vectors only."""
        return self.scored(self.vectors)

    def scored(self, queries: Tensor, change: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Similarity (B, N) of other vectors of the queries, to candidates changed by `change`."""
        candidates = self.gallery.vectors.to(queries)
        scores = similarity(queries, candidates if change is None else change(candidates))
        if self.exclude is not None:
            hidden = torch.zeros_like(scores, dtype=torch.bool)
            hidden[tuple(self.exclude.to(scores.device).T)] = True
            scores = scores.masked_fill(hidden, -torch.inf)
        return scores

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
        return self.matching.logits(self.direct_params, self.readings, positions)

    def gradients(self, *losses: Tensor) -> tuple[Params, ...]:
        """The gradient of each loss: one product through the encoder for each.

        Names that the forward does not reach are left out.
        """
        with retain_compiled_graphs():
            return self._gradients_of(losses)

    def _gradients_of(self, losses: Sequence[Tensor]) -> tuple[Params, ...]:
        outputs = (self.vectors, *_floating(self.readings))
        leaves = (*outputs, *self.direct_params.values())
        found = [_slopes(loss, leaves) for loss in losses]
        mine = [
            dict(zip(self.direct_params, slopes[len(outputs) :], strict=True)) for slopes in found
        ]
        if self.backward is None:
            return tuple(mine)
        theirs = self.backward([slopes[: len(outputs)] for slopes in found])
        return tuple(_summed(*both) for both in zip(theirs, mine, strict=True))

    def detached(self) -> Forward:
        """The same without any graph."""
        own = {name: value.detach() for name, value in self.direct_params.items()}
        readings = None if self.readings is None else each(self.readings, Tensor.detach)
        plain = {"vectors": self.vectors.detach(), "direct_params": own, "readings": readings}
        return replace(self, backward=None, **plain)  # type: ignore[arg-type]


class Batch:
    """One prepared batch of queries: what all looks at it share."""

    def __init__(
        self,
        encoder: Encoder,
        gallery: Searchable,
        shared: Any,
        exclude: Tensor | None = None,
        chunk: int | None = None,
        matching: Matching | None = None,
    ) -> None:
        self.encoder, self.gallery, self.shared = encoder, gallery, shared
        self.exclude, self.chunk, self.matching = exclude, chunk, matching
        self.source: Forward | None = None  # forward once, then kept
        if chunk is not None and chunk < len(self):
            encoder.check_apart("leave chunk out, or give the layer running statistics")

    def __len__(self) -> int:
        return count(self.shared)

    def see(self, params: Params, graph: bool) -> Forward:
        """One forward of the batch through `params`."""
        leaves = params
        if graph:
            leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
        theirs = self.encoder.parameter_names
        mine = {name: value for name, value in leaves.items() if name in theirs}
        own = {name: leaves[name] for name in self._direct_names(params)}
        *others, last = self._parts()
        with torch.set_grad_enabled(graph and bool(mine)):
            forward = [_cut(self._run(mine, part)) for part in others]
            forward.append(self._run(mine, last))
        vectors, readings = _joined([_cut(one) for one in forward])
        return Forward(
            vectors=_leaf(vectors, graph),
            gallery=self.gallery,
            exclude=self.exclude,
            direct_params=own,
            backward=self._backward(mine, forward[-1]) if graph and mine else None,
            matching=self.matching,
            readings=None if readings is None else each(readings, lambda one: _leaf(one, graph)),
        )

    def _direct_names(self, params: Params) -> list[str]:
        """Parameters a loss may depend on other than through the encoder."""
        twins = () if self.matching is None else self.matching.matcher.twins
        theirs = self.encoder.parameter_names
        return [name for name in params if name not in theirs or name in twins]

    def _parts(self) -> list[Any]:
        size = self.chunk or len(self)
        return [take(self.shared, slice(i, i + size)) for i in range(0, len(self), size)]

    def _run(self, params: Params, part: Any) -> Seen:
        if self.matching is None:
            return self.encoder.through(params, part), None
        return self.encoder.through_for_matcher(params, part)

    def _backward(self, params: Params, last: Seen) -> Backward:
        """Products over the forward, piece by piece, so that only one piece's graph exists.

        The last piece's is at hand in the first pull; the others' are made again. A whole batch is
        one piece, whose graph stays.
        """
        parts, alive = self._parts(), [last]
        sizes = [count(part) for part in parts]

        def outputs(number: int) -> tuple[Tensor, ...]:
            if alive and number == len(parts) - 1:
                return _outputs(alive[0] if number == 0 else alive.pop())
            with torch.enable_grad():
                return _outputs(self._run(params, parts[number]))

        def pull(cotangents: Sequence[Cotangents]) -> tuple[Params, ...]:
            totals: tuple[Params, ...] = tuple({} for _ in cotangents)
            for number in reversed(range(len(parts))):
                rows = [
                    tuple(torch.split(c, sizes)[number] for c in slopes) for slopes in cotangents
                ]
                found = _products(outputs(number), rows, params)
                totals = tuple(_summed(*both) for both in zip(totals, found, strict=True))
            return totals

        return pull


def _products(
    outputs: tuple[Tensor, ...], cotangents: Sequence[Cotangents], params: Params
) -> tuple[Params, ...]:
    """Products over the graph of one forward; it goes when we return, unless somebody keeps it."""
    return tuple(_product(outputs, slopes, params) for slopes in cotangents)


def _product(outputs: tuple[Tensor, ...], slopes: Cotangents, params: Params) -> Params:
    """One vector-Jacobian product; names that the outputs do not depend on are left out."""
    tied = [(o, s) for o, s in zip(outputs, slopes, strict=True) if o.requires_grad]
    if not tied:
        return {}
    with torch.enable_grad():  # handing torch the slopes as such would import sympy: 0.3 s
        along = torch.stack([(output * slope).sum() for output, slope in tied]).sum()
    grads = torch.autograd.grad(along, tuple(params.values()), retain_graph=True, allow_unused=True)
    named = zip(params, grads, strict=True)
    return {name: grad for name, grad in named if grad is not None}


def _outputs(forward: Seen) -> tuple[Tensor, ...]:
    vectors, readings = forward
    return vectors, *_floating(readings)


def _cut(forward: Seen) -> Seen:
    """The same without a graph."""
    vectors, readings = forward
    return vectors.detach(), None if readings is None else each(readings, Tensor.detach)


def _joined(forward: Sequence[Seen]) -> Seen:
    """All in memory of their own: an encoder may write its next result where this one is."""
    vectors, readings = zip(*forward, strict=True)
    return torch.cat(vectors), None if readings[0] is None else joined(readings)


def _leaf(value: Tensor, graph: bool) -> Tensor:
    return value.detach().requires_grad_(graph and value.is_floating_point())


def _floating(prepared: Prepared | None) -> tuple[Tensor, ...]:
    known = () if prepared is None else tensors(prepared)
    return tuple(tensor for tensor in known if tensor.is_floating_point())


def _slopes(loss: Tensor, leaves: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The derivative of a loss at each leaf, zero where it does not depend on it."""
    found = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    both = zip(found, leaves, strict=True)
    return tuple(torch.zeros_like(leaf) if slope is None else slope for slope, leaf in both)


def _summed(left: Params, right: Params) -> Params:
    """All names of both; where both have one, the sum."""
    return {**left, **{n: left[n] + value if n in left else value for n, value in right.items()}}


class StepView:
    """One batch forward through the parameters of one step."""

    def __init__(self, batch: Batch, params: Params, source: Params, seed: int = 0) -> None:
        self.batch, self.params, self.source_params, self.seed = batch, params, source, seed

    @property
    def at_source(self) -> bool:
        """Whether nothing has been learnt yet: the parameters are the source's own."""
        return self.params is self.source_params

    @lazy_property
    def now(self) -> Forward:
        """Seen through the current parameters, with a graph."""
        forward = self.at(self.params)
        if self.at_source and self.batch.source is None:
            self.batch.source = forward.detached()
        return forward

    @property
    def source(self) -> Forward:
        """Seen through the source's parameters, without a graph, once per batch."""
        if self.batch.source is None:
            self.batch.source = self.batch.see(self.source_params, graph=False)
        return self.batch.source

    def at(self, params: Params) -> Forward:
        """Seen through other parameters, with a graph."""
        return self.batch.see(params, graph=True)


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
