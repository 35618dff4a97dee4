"""What a batch of queries finds in a gallery, seen through some parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .encoder import Encoder, Params
from .galleries import Hits, Searchable
from .prepared import count, take

Pull = Callable[[tuple[Tensor, ...]], tuple[Params, ...]]


@dataclass(frozen=True, eq=False)
class Retrieval:
    """Query vectors and what they find.

    The vectors are leaves, so that a loss is differentiated *at the vectors*; `pull` carries its
    derivative back to the parameters.
    """

    vectors: Tensor  # (B, D)
    gallery: Searchable
    exclude: Tensor | None = None  # (P, 2): pairs of query and position that must not meet
    own: Params = field(default_factory=dict)  # parameters of the method itself (TSA)
    backwards: Pull | None = None  # cotangents at the vectors -> gradients of the encoder's part
    found: dict[str, tuple[int, Hits]] = field(default_factory=dict, repr=False)  # searched once

    def __len__(self) -> int:
        return len(self.vectors)

    def hits(self, count: int) -> Hits:
        """The best `count` candidates of each query, on the queries' device, without a graph."""
        asked, known = self.found.get("hits", (0, None))
        if known is None or asked < count:
            known = self.gallery.search(self.vectors.detach(), count, self.exclude)
            self.found["hits"] = (count, known)
        return known.top(count)

    def top(self, count: int) -> Hits:
        """The best `count` candidates of each query, on the CPU: what users get."""
        return self.hits(count).to("cpu")

    @cached_property
    def nearest(self) -> Tensor:
        """The vector (B, D) of each query's nearest candidate, the best of it if it has several."""
        return best_vectors(self.vectors, self.hits(1).vectors[:, 0])

    @cached_property
    @torch.enable_grad()  # computed once, perhaps first by someone who needs no graph
    def scores(self) -> Tensor:
        """Similarity (B, N) to the whole gallery, with a graph to the vectors only."""
        candidates = self.gallery.vectors.to(self.vectors)
        scores = similarity(self.vectors, candidates)
        if self.exclude is not None:
            hidden = torch.zeros_like(scores, dtype=torch.bool)
            hidden[tuple(self.exclude.to(scores.device).T)] = True
            scores = scores.masked_fill(hidden, -torch.inf)
        return scores

    @property
    def fixed_columns(self) -> bool:
        """Whether a column of `scores` is the same candidate in every batch."""
        return True

    def pull(self, *losses: Tensor) -> tuple[Params, ...]:
        """The gradient of each loss: one product through the encoder for each.

        Names that the forward does not reach are left out.
        """
        leaves = (self.vectors, *self.own.values())
        found = [
            torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
            for loss in losses
        ]
        zeros = [
            [
                torch.zeros_like(leaf) if g is None else g
                for g, leaf in zip(grads, leaves, strict=True)
            ]
            for grads in found
        ]
        mine = [dict(zip(self.own, grads[1:], strict=True)) for grads in zeros]
        if self.backwards is None:
            return tuple(mine)
        theirs = self.backwards(tuple(grads[0] for grads in zeros))
        return tuple({**encoder, **method} for encoder, method in zip(theirs, mine, strict=True))

    def detached(self) -> Retrieval:
        """The same without any graph."""
        own = {name: value.detach() for name, value in self.own.items()}
        return replace(self, vectors=self.vectors.detach(), own=own, backwards=None)


class Batch:
    """One prepared batch of queries: what all looks at it share."""

    def __init__(
        self,
        encoder: Encoder,
        gallery: Searchable,
        shared: Any,
        exclude: Tensor | None = None,
        chunk: int | None = None,
    ) -> None:
        self.encoder, self.gallery, self.shared = encoder, gallery, shared
        self.exclude, self.chunk = exclude, chunk
        self.source: Retrieval | None = None  # seen once, then kept

    def __len__(self) -> int:
        return count(self.shared)

    def see(self, params: Params, graph: bool) -> Retrieval:
        """One forward of the batch through `params`."""
        leaves = {name: value.detach().requires_grad_(graph) for name, value in params.items()}
        known = self._encoder_names
        mine = {name: value for name, value in leaves.items() if name in known}
        own = {name: value for name, value in leaves.items() if name not in known}
        whole = graph and self.chunk is None and bool(mine)
        vectors = self._forward(mine, whole)
        backwards: Pull | None = None
        if graph and mine:
            backwards = _whole(vectors, mine) if whole else self._in_chunks(mine)
        leaf = vectors.detach().requires_grad_(graph)
        return Retrieval(leaf, self.gallery, self.exclude, own, backwards)

    @cached_property
    def _encoder_names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.encoder.named_parameters())

    def _forward(self, params: Params, graph: bool) -> Tensor:
        with torch.set_grad_enabled(graph):
            return torch.cat([self.encoder.through(params, part) for part in self._parts()])

    def _parts(self) -> list[Any]:
        size = self.chunk or len(self)
        return [take(self.shared, slice(i, i + size)) for i in range(0, len(self), size)]

    def _in_chunks(self, params: Params) -> Pull:
        """Redo the forward in pieces, so that only one piece's graph exists at a time."""

        def pull(cotangents: tuple[Tensor, ...]) -> tuple[Params, ...]:
            totals: list[Params] = [{} for _ in cotangents]
            start = 0
            for part in self._parts():
                with torch.enable_grad():
                    vectors = self.encoder.through(params, part)
                rows = slice(start, start := start + len(vectors))
                pieces = _whole(vectors, params)(tuple(c[rows] for c in cotangents))
                for total, piece in zip(totals, pieces, strict=True):
                    total.update({n: total[n] + g if n in total else g for n, g in piece.items()})
            return tuple(totals)

        return pull


def _whole(vectors: Tensor, params: Params) -> Pull:
    """Products over the graph of one forward, which lives as long as its retrieval."""

    def pull(cotangents: tuple[Tensor, ...]) -> tuple[Params, ...]:
        found = []
        for cotangent in cotangents:
            grads = torch.autograd.grad(
                vectors, tuple(params.values()), cotangent, retain_graph=True, allow_unused=True
            )
            named = zip(params, grads, strict=True)
            found.append({name: grad for name, grad in named if grad is not None})
        return tuple(found)

    return pull


class Look:
    """One batch seen through the parameters of one step."""

    def __init__(self, batch: Batch, params: Params, source: Params, seed: int = 0) -> None:
        self.batch, self.params, self.source_params, self.seed = batch, params, source, seed

    @cached_property
    def at_source(self) -> bool:
        """Whether the parameters still equal the source's."""
        return all(torch.equal(value, self.source_params[n]) for n, value in self.params.items())

    @cached_property
    def now(self) -> Retrieval:
        """Seen through the current parameters, with a graph."""
        return self.at(self.params)

    @property
    def source(self) -> Retrieval:
        """Seen through the source's parameters, without a graph, once per batch."""
        if self.batch.source is None:
            if self.at_source:
                self.batch.source = self.now.detached()
            else:
                self.batch.source = self.batch.see(self.source_params, graph=False)
        return self.batch.source

    def at(self, params: Params) -> Retrieval:
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
