"""REST: robust adaptation with query shift, the method of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from queryshift.retrieval.forward import Forward
from queryshift.retrieval.refinement import Duplicates, RefinedPrediction, refined

from .base import StepView, Update, setting
from .decoupled import Over, WeightOn, decoupled, drift
from .losses import SourceLike, entropy, gap, hard_margin, reliability, uniformity, weighted_mean
from .source_like import FollowsSource

Consistency = Literal["affine", "clamp"]
MineWith = Literal["matcher", "cosine"]


@dataclass(frozen=True, kw_only=True)
class REST(FollowsSource):
    """Uniformity, gap, entropy of reliable queries and hard negatives, over few candidates.

    Args:
        neighbours: K: how many candidates a query lists for the others, and how many centroids.
        uniformity: Use L_U, which spreads the queries.
        gap: Use L_G, which keeps the source model's gap.
        entropy: Use L_REM, which makes reliable queries more confident.
        mining: Use L_RHM, which moves reliable queries away from their hardest negative.
        uniformity_scale: Scale t in exp(-t * distance).
        duplicates: If several queries list a candidate, the softmax has it once per query ("keep")
            or once ("merge").
        own_copies: Whether the positive of query i is in p_i again if other queries list it.
        consistency: Consistency c of a pair: "affine" is (1 + cos) / 2, "clamp" is cos.
        consistency_floor: Smallest value of c, so that its logarithm is finite.
        mine_with: Where c comes from if the session has a matcher: "matcher" or "cosine".
        decouple: Whether gradients are decoupled, for streams whose shift varies by query.
        weight_on: With `decouple`: whether exp(-D), D being the drift, multiplies the "gradient"
            (AdamW cancels most of this) or the "lr".
        over: With `decouple`: whether gradients of "all" parameters are decoupled as one vector,
            or each "tensor" alone.

    The other arguments are those of `Method`, and those of the queue of source-like pairs.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.REST(neighbours=5, decouple=True))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    neighbours: int = setting(10, "paper", "K: listed candidates of a query, and centroids")
    uniformity: bool = setting(True, "paper", "keep queries spread out (L_U)")
    gap: bool = setting(True, "paper", "keep the query-gallery gap where the source had it (L_G)")
    entropy: bool = setting(True, "paper", "reliable entropy minimisation (L_REM)")
    mining: bool = setting(True, "paper", "reliable hard mining (L_RHM)")
    uniformity_scale: float = setting(1.0, "paper", "t in exp(-t * distance)")
    duplicates: Duplicates = setting("keep", "ours", "copies of a candidate several queries list")
    own_copies: bool = setting(True, "ours", "predictions keep copies of the own positive")
    consistency: Consistency = setting("affine", "ours", 'c = (1 + cos) / 2, or "clamp": cos')
    consistency_floor: float = setting(1e-6, "ours", "least c: its logarithm stays finite")
    mine_with: MineWith = setting("matcher", "paper", "what tells c, where there is a matcher")
    decouple: bool = setting(False, "paper", "gradient decoupling, for streams of mixed queries")
    weight_on: WeightOn = setting("gradient", "paper", "where exp(-D_KL) acts; AdamW hides most")
    over: Over = setting("all", "paper", '"tensor" decouples each tensor alone')

    built_in: ClassVar[Mapping[str, Mapping[str, Any]]] = {"decoupled": {"decouple": True}}

    @property
    def name(self) -> str:
        """Decoupling wants a learning rate of its own, so it has a name of its own."""
        return "rest+decoupled" if self.decouple is True else "rest"

    def check(self) -> None:
        """Refuse settings that cannot work."""
        super().check()
        self._must("neighbours", self.neighbours >= 1, "at least 1")

    @property
    def adapts_matcher(self) -> bool:
        """Hard mining reaches the single-stream part, where there is one."""
        return self.mining and self.mine_with == "matcher"

    def loss(self, forward: Forward, memory: SourceLike) -> Tensor:
        """L = L_U + L_G + L_REM + L_RHM (Eq. 3)."""
        prediction = self.refined(forward)
        total = forward.vectors.sum() * 0
        if self.uniformity:
            total = total + uniformity(forward.vectors, self.uniformity_scale)
        if self.gap:
            total = total + (gap(forward.vectors, forward.nearest) - memory.gap).square()
        return total + self._consistency_loss(forward, prediction, memory)

    def gradient(self, step_view: StepView, memory: SourceLike) -> Update:
        """The loss's gradient, decoupled from the general direction where that is asked for."""
        domain = super().gradient(step_view, memory)
        if not self.decouple or step_view.at_source:
            return domain
        moved = drift(step_view.source, self.refined(step_view.now))
        return decoupled(step_view, domain, moved, self.weight_on, self.over)

    def logits(self, forward: Forward) -> Tensor:
        """The refined prediction (B, C)."""
        return self.refined(forward).logits

    def refined(self, forward: Forward) -> RefinedPrediction:
        """The refined prediction with this method's choices.

        Args:
            forward: The batch, seen through the parameters in force.

        Returns:
            Logits over each query's candidates and the centroids.
        """
        return refined(forward, self.neighbours, self.tau, self.duplicates, self.own_copies)

    def _consistency_loss(
        self, forward: Forward, prediction: RefinedPrediction, memory: SourceLike
    ) -> Tensor:
        """L_C = L_REM + L_RHM, over queries whose entropy is small enough to be trusted."""
        entropies = entropy(prediction.logits)
        weights = reliability(entropies, memory.entropy_limit + self.limit_margin)
        total = entropies.sum() * 0
        if self.entropy:
            total = total + weighted_mean(entropies, weights)
        if self.mining:
            margins = hard_margin(*self._consistencies(forward, prediction))
            total = total + weighted_mean(margins, weights)
        return total

    def _consistencies(
        self, forward: Forward, prediction: RefinedPrediction
    ) -> tuple[Tensor, Tensor]:
        """c in (0, 1] of the positive and of the hardest negative.

        The matcher's probability of a match where the session has one (single stream), else the
        cosine.
        """
        if forward.matching is not None and self.mine_with == "matcher":
            match = forward.match(prediction.pairs()).softmax(dim=2)[..., 1]
            match = match.clamp(min=self.consistency_floor)
            return match[:, 0], match[:, 1]
        positive, hardest = prediction.hardest()
        if self.consistency == "affine":
            positive, hardest = (1 + positive) / 2, (1 + hardest) / 2
        return positive.clamp(min=self.consistency_floor), hardest.clamp(min=self.consistency_floor)
