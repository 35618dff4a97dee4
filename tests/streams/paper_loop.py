"""REST as the paper writes it, one step of a plain loop."""

from dataclasses import dataclass, field

import torch
from plain_loops import Plain, Queue
from torch import Tensor

K, TAU = 10, 0.02


@dataclass
class Paper:
    """One step of REST: Eq. 3 to 14, then Section 3.6."""

    centroids: Tensor
    duplicates: str = "keep"
    own_copies: bool = True
    consistency: str = "affine"
    uniformity_scale: float = 1.0
    decouple: bool = False
    weight_on: str = "gradient"
    over: str = "all"
    queue: Queue = field(default_factory=Queue)

    def __call__(self, plain: Plain, items: Tensor, number: int, step: int) -> Tensor:
        queries = plain.model(items)
        lists = plain.scores(queries).topk(K, dim=1).indices.tolist()
        positives = plain.gallery[[listed[0] for listed in lists]]
        negatives = [self.negatives(lists, i) for i in range(len(lists))]
        predictions = self.predictions(plain, queries, positives, negatives)
        unsure = torch.stack([-(p * p.log()).sum() for p in predictions])
        if step == 0 and number < 10:
            self.queue.update(queries, positives, unsure)
        others = [
            [k for k in found if k != listed[0]]
            for found, listed in zip(negatives, lists, strict=True)
        ]
        loss = self.loss(plain, queries, positives, others, unsure)
        slopes = plain.slopes(loss)
        if self.decouple:
            with torch.no_grad():
                source = plain.source(items)
                before = self.predictions(plain, source, positives, negatives)
            slopes = self.decoupled(plain, slopes, before, predictions)
        plain.step(slopes)
        return plain.scores(queries)

    def negatives(self, lists: list[list[int]], i: int) -> list[int]:
        found = [c for j, listed in enumerate(lists) if j != i for c in listed]
        if self.duplicates == "merge":
            return sorted(set(found) - {lists[i][0]})
        return found if self.own_copies else [c for c in found if c != lists[i][0]]

    def predictions(
        self,
        plain: Plain,
        queries: Tensor,
        positives: Tensor,
        negatives: list[list[int]],
        tau: float = TAU,
    ) -> list[Tensor]:
        """Softmax over the positive, the sample negatives and the cluster negatives."""
        rows = []
        for query, positive, others in zip(queries, positives, negatives, strict=True):
            candidates = torch.cat((positive[None], plain.gallery[others], self.centroids))
            rows.append(torch.softmax(candidates @ query / tau, dim=0))
        return rows

    def loss(
        self,
        plain: Plain,
        queries: Tensor,
        positives: Tensor,
        negatives: list[list[int]],
        unsure: Tensor,
    ) -> Tensor:
        """Eq. 3; hard negatives are other candidates than the positive: k != j in Eq. 14."""
        centre = queries.mean(0)
        uniform = torch.exp(-self.uniformity_scale * (queries - centre).norm(dim=1)).mean()
        gap = ((centre - positives.mean(0)).norm() - self.queue.gap) ** 2
        weights = (1 - unsure.detach() / (self.queue.limit + 1e-3)).clamp(min=0)
        trusted = max(1, int((weights != 0).sum()))
        near = self.consistent((queries * positives).sum(1))
        hard = torch.stack(
            [(plain.gallery[c] @ q).max() for q, c in zip(queries, negatives, strict=True)]
        )
        margin = -near.log() + self.consistent(hard).log()
        return uniform + gap + ((weights * unsure).sum() + (weights * margin).sum()) / trusted

    def consistent(self, cosine: Tensor) -> Tensor:
        return (1 + cosine) / 2 if self.consistency == "affine" else cosine.clamp(min=1e-6)

    def decoupled(
        self, plain: Plain, domain: list[Tensor], before: list[Tensor], now: list[Tensor]
    ) -> list[Tensor]:
        pairs = zip(before, now, strict=True)
        moved = torch.stack([(s * (s.log() - p.log())).sum() for s, p in pairs]).mean()
        general = plain.slopes(moved)
        weight = torch.exp(-moved.detach())
        d, r = (torch.cat([g.flatten() for g in slopes]) for slopes in (domain, general))
        if r.norm() > 1e-6 * d.norm() and moved > 1e-8:
            domain = self.projected(domain, general)
        plain.optimiser.param_groups[0]["lr"] = plain.lr
        if self.weight_on == "lr":
            plain.optimiser.param_groups[0]["lr"] = plain.lr * float(weight)
            return domain
        return [weight * slope for slope in domain]

    def projected(self, domain: list[Tensor], general: list[Tensor]) -> list[Tensor]:
        """Without the part against the general direction; all as one vector, or each alone."""
        against = [(d * r).sum() for d, r in zip(domain, general, strict=True)]
        size = [(r * r).sum() for r in general]
        if self.over == "all":
            against, size = [sum(against)] * len(domain), [sum(size)] * len(domain)
        return [
            d if dot >= 0 else d - dot / length * r
            for d, r, dot, length in zip(domain, general, against, size, strict=True)
        ]
