"""Query prediction refinement for any method (the paper's temperature figure)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, cast

from torch import Tensor

from queryshift.encoders.encoder import Params
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.refinement import Duplicates, RefinedPrediction, refined

from .base import StepView, Update, setting
from .source_like import FollowsSource
from .wrapper import Wrapper


@dataclass(frozen=True, eq=False)
class _NarrowedForward(Forward):
    """A forward whose scores are those of the refined candidates only."""

    prediction: RefinedPrediction = field(kw_only=True)

    def scored(self, queries: Tensor, change: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Similarity (B, C) to each query's own candidates; -inf where a column is not its own."""
        if change is None:
            return self.prediction.similarities_of(queries)
        return self.prediction.changed_similarities(queries, change)

    def summed(self, shares: Tensor) -> Tensor:
        """Each listed candidate's and centroid's share of the batch."""
        return self.prediction.summed(shares)

    @property
    def fixed_columns(self) -> bool:
        """Every batch has columns of its own."""
        return False


@dataclass(frozen=True, kw_only=True)
class Refined(Wrapper):
    """Any method over REST's few candidates instead of the whole gallery.

    Args:
        neighbours: K: how many candidates a query lists for the others, and how many centroids.
        duplicates: "keep": a candidate counts once for each query that lists it; "merge": once.

    Learning rate, temperature and optimiser are those of the wrapped method.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.Refined(qs.Tent(), neighbours=2))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    neighbours: int = setting(10, "paper", "K: listed candidates of a query, and centroids")
    duplicates: Duplicates = setting("keep", "ours", "copies of a candidate several queries list")

    def check(self) -> None:
        """Refuse settings that cannot work."""
        super().check()
        self._must("neighbours", self.neighbours >= 1, "at least 1")
        if isinstance(self.method, FollowsSource):
            name = type(self.method).__name__
            warnings.warn(
                f"Refined({name}) is {name}: it does not look at the whole gallery, so there is "
                "nothing to refine.",
                stacklevel=5,
            )

    def observe(self, forward: Forward, memory: Any, step: int) -> Any:
        """As the wrapped method, on the refined candidates."""
        return self.method.observe(self._narrowed(forward), memory, step)

    def loss(self, forward: Forward, memory: Any) -> Tensor | None:
        """As the wrapped method, on the refined candidates."""
        return self.method.loss(self._narrowed(forward), memory)

    def gradient(self, step_view: StepView, memory: Any) -> Update:
        """As the wrapped method, on the refined candidates."""
        return self.method.gradient(_NarrowedView(step_view, self), memory)

    def _narrowed(self, forward: Forward) -> Forward:
        key = ("narrowed", self.neighbours, self.duplicates)
        if key not in forward.cache:
            prediction = refined(forward, self.neighbours, self.method.tau, self.duplicates)
            values = {field.name: getattr(forward, field.name) for field in fields(Forward)}
            forward.cache[key] = _NarrowedForward(**values | {"cache": {}}, prediction=prediction)
        return cast(Forward, forward.cache[key])


class _NarrowedView(StepView):
    """A step whose forwards are narrowed; it shares those of the step that it narrows."""

    def __init__(self, whole: StepView, method: Refined) -> None:
        super().__init__(whole.batch, whole.params, whole.source_params, whole.seed)
        self._whole, self._method = whole, method

    @property
    def now(self) -> Forward:
        return self._method._narrowed(self._whole.now)

    def at(self, params: Params) -> Forward:
        return self._method._narrowed(self._whole.at(params))
