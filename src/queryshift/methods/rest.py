"""REST: robust adaptation with query shift, the method of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from ..losses import entropy, gap, hard_margin, reliability, uniformity, weighted_mean
from ..refine import Duplicates, Refined, refined
from ..retrieval import Look, Retrieval
from .base import Update, setting
from .decoupled import Over, WeightOn, decoupled, drift
from .source_like import FollowsSource, SourceLike

Consistency = Literal["affine", "clamp"]
MineWith = Literal["matcher", "cosine"]


@dataclass(frozen=True, kw_only=True)
class REST(FollowsSource):
    """Uniformity + gap + reliable entropy + reliable hard mining, over refined predictions."""

    neighbours: int = setting(10, "paper", "K: listed candidates of a query, and centroids")
    uniformity: bool = setting(True, "paper", "keep queries spread out (L_U)")
    gap: bool = setting(True, "paper", "keep the query-gallery gap where the source had it (L_G)")
    entropy: bool = setting(True, "paper", "reliable entropy minimisation (L_REM)")
    mining: bool = setting(True, "paper", "reliable hard mining (L_RHM)")
    uniformity_scale: float = setting(1.0, "paper", "t in exp(-t * distance)")
    duplicates: Duplicates = setting("keep", "ours", "copies of a candidate several queries list")
    own_copies: bool = setting(True, "ours", "copies of the own positive stay among the negatives")
    consistency: Consistency = setting("affine", "ours", 'c = (1 + cos) / 2, or "clamp": cos')
    consistency_floor: float = setting(1e-6, "ours", "least c: its logarithm stays finite")
    mine_with: MineWith = setting("matcher", "paper", "what tells c, where there is a matcher")
    decouple: bool = setting(False, "paper", "gradient decoupling, for streams of mixed queries")
    weight_on: WeightOn = setting("gradient", "paper", "where exp(-D_KL) acts; AdamW hides most")
    over: Over = setting("all", "paper", '"tensor" decouples each tensor alone')

    @property
    def name(self) -> str:
        """Decoupling wants a learning rate of its own, so it has a name of its own."""
        return "rest+decoupled" if self.decouple else "rest"

    def check(self) -> None:
        """As every method; a list of no candidates is none."""
        super().check()
        self._must("neighbours", self.neighbours >= 1, "at least 1")

    @property
    def adapts_matcher(self) -> bool:
        """Hard mining reaches the single-stream part, where there is one."""
        return self.mining and self.mine_with == "matcher"

    def loss(self, seen: Retrieval, memory: SourceLike) -> Tensor:
        """L = L_U + L_G + L_REM + L_RHM (Eq. 3)."""
        prediction = self.refined(seen)
        total = seen.vectors.sum() * 0
        if self.uniformity:
            total = total + uniformity(seen.vectors, self.uniformity_scale)
        if self.gap:
            total = total + (gap(seen.vectors, seen.nearest) - memory.gap).square()
        return total + self._consistency_loss(seen, prediction, memory)

    def gradient(self, look: Look, memory: SourceLike) -> Update:
        """The loss's gradient, decoupled from the general direction where that is asked for."""
        domain = super().gradient(look, memory)
        if not self.decouple or look.at_source:
            return domain
        moved = drift(look.source, self.refined(look.now))
        return decoupled(look, domain, moved, self.weight_on, self.over)

    def logits(self, seen: Retrieval) -> Tensor:
        """The refined prediction (B, C)."""
        return self.refined(seen).logits

    def refined(self, seen: Retrieval) -> Refined:
        """The refined prediction with this method's choices."""
        return refined(seen, self.neighbours, self.tau, self.duplicates, self.own_copies)

    def _consistency_loss(self, seen: Retrieval, prediction: Refined, memory: SourceLike) -> Tensor:
        """L_C = L_REM + L_RHM, over queries whose entropy is small enough to be trusted."""
        entropies = entropy(prediction.logits)
        weights = reliability(entropies, memory.entropy_limit + self.limit_margin)
        total = entropies.sum() * 0
        if self.entropy:
            total = total + weighted_mean(entropies, weights)
        if self.mining:
            margins = hard_margin(*self._consistencies(seen, prediction))
            total = total + weighted_mean(margins, weights)
        return total

    def _consistencies(self, seen: Retrieval, prediction: Refined) -> tuple[Tensor, Tensor]:
        """c in (0, 1] of the positive and of the hardest negative.

        The matcher's probability of a match where the session has one (single stream), else the
        cosine.
        """
        if seen.matching is not None and self.mine_with == "matcher":
            match = (
                seen.match(prediction.pairs())
                .softmax(dim=2)[..., 1]
                .clamp(min=self.consistency_floor)
            )
            return match[:, 0], match[:, 1]
        positive, hardest = prediction.hardest()
        if self.consistency == "affine":
            positive, hardest = (1 + positive) / 2, (1 + hardest) / 2
        return positive.clamp(min=self.consistency_floor), hardest.clamp(min=self.consistency_floor)
