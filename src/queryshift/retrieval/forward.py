"""One forward of a batch: query vectors, what they find, and gradients of losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import Params
from queryshift.encoders.matcher import Matching
from queryshift.encoders.prepared import Prepared, check_finite, each, tensors
from queryshift.errors import BadInput, GalleryMismatch, NeedsVectors
from queryshift.galleries import Hits, Searchable
from queryshift.galleries.exclusions import exclusions_of_rows, mask_excluded
from queryshift.galleries.memory.exact_gallery import ExactGallery
from queryshift.galleries.memory.exact_search import all_scores, grouped_topk, left_for_all
from queryshift.support.torch_modes import retain_compiled_graphs

Cotangents = tuple[Tensor, ...]  # one per output of the encoder
UNIT_TOLERANCE = 1e-2
WHOLE = 2**18  # largest gallery in memory whose candidates are all scored
Backward = Callable[[Sequence[Cotangents]], tuple[Params, ...]]


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
        outputs = (self.vectors, *floating_tensors(self.readings))
        leaves = (*outputs, *self.direct_params.values())
        with retain_compiled_graphs():
            slopes = [slopes_at(loss, leaves) for loss in losses]
            direct = [dict(zip(self.direct_params, s[len(outputs) :], strict=True)) for s in slopes]
            if self.backward is None:
                return tuple(direct)
            indirect = self.backward([s[: len(outputs)] for s in slopes])
        return tuple(sum_params(*both) for both in zip(indirect, direct, strict=True))

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


def slopes_at(loss: Tensor, leaves: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The derivative of a loss at each leaf; zero if the loss does not depend on it."""
    slopes = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    pairs = zip(slopes, leaves, strict=True)
    return tuple(torch.zeros_like(leaf) if slope is None else slope for slope, leaf in pairs)


def vector_jacobian_products(
    outputs: tuple[Tensor, ...], cotangents: Sequence[Cotangents], params: Params
) -> tuple[Params, ...]:
    """One product for each of the cotangents."""
    return tuple(_product(outputs, slopes, params) for slopes in cotangents)


def _product(outputs: tuple[Tensor, ...], slopes: Cotangents, params: Params) -> Params:
    """One vector-Jacobian product, without parameters that the outputs do not depend on."""
    pairs = [(o, s) for o, s in zip(outputs, slopes, strict=True) if o.requires_grad]
    if not pairs:
        return {}
    with torch.enable_grad():  # passing grad_outputs to torch would import sympy: 0.3 s
        along = torch.stack([(output * slope).sum() for output, slope in pairs]).sum()
    grads = torch.autograd.grad(along, tuple(params.values()), retain_graph=True, allow_unused=True)
    named = zip(params, grads, strict=True)
    return {name: grad for name, grad in named if grad is not None}


def sum_params(left: Params, right: Params) -> Params:
    """The sum of two gradients; a name in one of them only is kept."""
    return {**left, **{n: left[n] + value if n in left else value for n, value in right.items()}}


def floating_tensors(prepared: Prepared | None) -> tuple[Tensor, ...]:
    """The tensors of a prepared batch that can have a derivative."""
    every = () if prepared is None else tensors(prepared)
    return tuple(tensor for tensor in every if tensor.is_floating_point())


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


def in_memory(gallery: Searchable) -> bool:
    """Whether every candidate can be scored for each batch."""
    try:
        return len(gallery) <= WHOLE and gallery.vectors is not None
    except NeedsVectors:
        return False


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
