"""EATA (Niu et al., ICML 2022): entropy of queries that are reliable and not redundant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from queryshift.encoders.encoder import Encoder, Params
from queryshift.errors import BadInput
from queryshift.galleries import Searchable
from queryshift.retrieval.forward import Batch, Forward
from queryshift.support.torch_modes import adaptation_modes

from .base import Method, StepView, Update, setting
from .gradients import scale
from .losses import entropy


@dataclass(frozen=True)
class Familiar:
    """The moving mean prediction, and the queries that this step learns from."""

    mean: Tensor | None = None  # (N,)
    chosen: Tensor | None = None  # (B,) bool


@dataclass(frozen=True, kw_only=True)
class EntropyFilter(Method):
    """A method that learns from queries of low entropy only: EATA and SAR.

    Args:
        share: How many queries count as reliable, those of lowest entropy; see `filter`.
        filter: "quantile": this share of the batch; "log": all with an entropy below
            share * log N (the official code).
    """

    share: float = setting(0.4, "TCR's code", "of the batch, or of log N, that counts as reliable")
    filter: Literal["quantile", "log"] = setting(
        "quantile", "TCR's code", '"log" is the official share * log N'
    )

    def check(self) -> None:
        """Refuse settings that cannot work."""
        super().check()
        self._must("share", 0 < self.share <= 1, "more than 0, and at most 1")

    def largest_entropy(self, entropies: Tensor, candidates: int) -> Tensor | float:
        """The largest entropy that counts as reliable, of a batch's (B,) over N candidates."""
        if self.filter == "log":
            return self.share * log(candidates)
        sure = max(1, int(self.share * len(entropies)))
        return torch.kthvalue(entropies.detach(), sure).values


@dataclass(frozen=True, kw_only=True)
class EATA(EntropyFilter):
    """Entropy of reliable, non-redundant queries, weighted by their confidence.

    Args:
        share: How many queries count as reliable, those of lowest entropy; see `filter`.
        filter: "quantile": this share of the batch; "log": all with an entropy below
            share * log N (the official code).
        redundancy: Cosine to the moving mean prediction from which a query is redundant.
        momentum: Momentum of the moving mean prediction.
        fisher_weight: Weight of the term that keeps parameters near the source model's.
        fisher: Importance of each parameter, from `fisher_of`.

    The other arguments are those of `Method`.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.EATA(share=0.5))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    redundancy: float = setting(0.05, "official code", "cosine to the mean from which one is known")
    momentum: float = setting(0.9, "official code", "of the moving mean prediction")
    fisher_weight: float = setting(2000.0, "official code", "pull to the source, where given")
    fisher: Mapping[str, Tensor] | None = field(
        default=None,
        compare=False,
        repr=False,
        metadata={"origin": "TCR's code", "about": "importance of each parameter; see `fisher_of`"},
    )

    def check(self) -> None:
        """Refuse settings that cannot work."""
        super().check()
        importance = self.fisher is None or (
            isinstance(self.fisher, Mapping)
            and all(isinstance(one, Tensor) for one in self.fisher.values())
        )
        self._must("fisher", importance, "none, or what fisher_of(encoder, gallery, queries) gave")

    def start(self, gallery: Searchable, device: torch.device) -> Familiar:
        """No mean prediction yet."""
        return Familiar()

    def moved(self, memory: Familiar, gallery: Searchable) -> Familiar:
        """Forget the mean prediction: it is of other candidates."""
        return Familiar()

    def check_memory(self, memory: Familiar, gallery: Searchable) -> None:
        """The moving mean is a vector, or not yet known."""
        if not isinstance(memory, Familiar):
            raise ValueError("the memory of EATA holds no moving mean")
        mean = memory.mean
        if mean is None:
            return
        if not isinstance(mean, Tensor) or mean.ndim != 1 or not mean.is_floating_point():
            raise ValueError("the moving mean is not a vector of numbers")
        if not bool(torch.isfinite(mean).all()):
            raise ValueError("the moving mean holds NaN or infinity")

    def observe(self, forward: Forward, memory: Familiar, step: int) -> Familiar:
        """Choose the queries of this step, then let the mean follow them."""
        with torch.no_grad():
            predictions = (forward.scores / self.tau).softmax(dim=1)
            chosen = self._reliable(entropy(forward.scores / self.tau), predictions.shape[1])
            usual = memory.mean if forward.fixed_columns else None
            if usual is not None:  # one from a file may be of other columns, or another precision
                fits = usual.shape == predictions.shape[1:]
                usual = usual.to(predictions) if fits else None
            if usual is not None:
                near = cosine_similarity(predictions, usual[None], dim=1)
                chosen = chosen & (near.abs() < self.redundancy)
            if not bool(chosen.any()):
                return replace(memory, chosen=chosen)
            mean = predictions[chosen].mean(dim=0)
            if usual is not None:
                mean = torch.lerp(mean, usual, self.momentum)
        return Familiar(mean, chosen)

    def loss(self, forward: Forward, memory: Familiar) -> Tensor | None:
        """Mean over the chosen of exp(share - E) * E, the weight without a gradient."""
        if memory.chosen is None or not bool(memory.chosen.any()):
            return None
        entropies = entropy(forward.scores / self.tau)[memory.chosen]
        margin = self.share * (1 if self.filter == "quantile" else log(forward.scores.shape[1]))
        return (torch.exp(margin - entropies.detach()) * entropies).mean()

    def gradient(self, step_view: StepView, memory: Familiar) -> Update:
        """The loss's gradient, and the pull back to the source where `fisher` is given."""
        plain = super().gradient(step_view, memory)
        if self.fisher is None or plain.gradient is None:
            return plain
        shapes = {name: value.shape for name, value in self.fisher.items()}
        if strange := [n for n, grad in plain.gradient.items() if shapes.get(n) != grad.shape]:
            raise BadInput(
                f"eata: fisher has no importance of {min(strange)}, which adapts: compute it with "
                "fisher_of(encoder, gallery, clean_queries) for this very encoder."
            )
        now, source, pull = step_view.params, step_view.source_params, 2 * self.fisher_weight
        pulled = {
            name: grad + pull * self.fisher[name] * (now[name] - source[name])
            for name, grad in plain.gradient.items()
        }
        return replace(plain, gradient=pulled)

    def _reliable(self, entropies: Tensor, candidates: int) -> Tensor:
        limit = self.largest_entropy(entropies, candidates)
        return entropies < limit if self.filter == "log" else entropies <= limit


@adaptation_modes()
def fisher_of(
    encoder: Encoder, gallery: Searchable, clean: Sequence[Any], temperature: float = 0.01
) -> Params:
    """Importance of each adapted parameter: mean squared gradient on batches of clean queries.

    Args:
        encoder: The encoder of the session.
        gallery: The gallery of the session.
        clean: Queries of the source's kind, some hundred.
        temperature: Temperature of the prediction.

    Returns:
        A tensor for each parameter that adapts, for `EATA(fisher=...)`.
    """
    params, clean = encoder.norm_params(), list(clean)
    if not clean:
        raise BadInput("got no clean queries, expected some hundred: importance is a mean.")
    total: Params = {}
    batches = [clean[i : i + 64] for i in range(0, len(clean), 64)]
    for items in batches:
        forward = Batch(encoder, gallery, encoder.ready(items)).forward(params, graph=True)
        label_loss = -(forward.scores / temperature).log_softmax(dim=1).amax(dim=1).mean()
        (gradient,) = forward.gradients(label_loss)
        squared = {name: grad.square() for name, grad in gradient.items()}
        total = {name: total.get(name, 0) + value for name, value in squared.items()}
    return scale(total, 1 / len(batches))
