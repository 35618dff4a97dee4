"""REST, twelve batches of 64, with and without decoupling, against the paper as a plain loop."""

from dataclasses import dataclass, field, fields

import pytest
import torch
from plain_loops import SIZE, Plain, Queue, assert_same_params, assert_same_stream, play
from torch import Tensor

from queryshift.methods import REST
from queryshift.session import Session
from toy import ToyEncoder, toy_gallery, toy_queries

K, TAU, LR = 10, 0.02, 3e-3


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
        loss = self.loss(plain, queries, positives, negatives, unsure)
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
        self, plain: Plain, queries: Tensor, positives: Tensor, negatives: list[list[int]]
    ) -> list[Tensor]:
        """Softmax over the positive, the sample negatives and the cluster negatives."""
        rows = []
        for query, positive, others in zip(queries, positives, negatives, strict=True):
            candidates = torch.cat((positive[None], plain.gallery[others], self.centroids))
            rows.append(torch.softmax(candidates @ query / TAU, dim=0))
        return rows

    def loss(
        self,
        plain: Plain,
        queries: Tensor,
        positives: Tensor,
        negatives: list[list[int]],
        unsure: Tensor,
    ) -> Tensor:
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
        plain.optimiser.param_groups[0]["lr"] = LR
        if self.weight_on == "lr":
            plain.optimiser.param_groups[0]["lr"] = LR * float(weight)
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

    @property
    def method(self) -> REST:
        """The library's, with the same choices."""
        mine = {one.name for one in fields(self)} - {"centroids", "queue"}
        return REST(**{name: getattr(self, name) for name in mine})


@pytest.fixture(scope="module")
def world():
    encoder = ToyEncoder(dtype=torch.float64)
    return encoder, toy_gallery(encoder, 150), toy_queries(12, SIZE, 150)


def assert_agree(world, batches: int, **choices) -> Session:
    encoder, gallery, stream = world
    plain, paper = Plain(encoder, gallery, LR, TAU), Paper(gallery.centroids(K), **choices)
    answers = play(plain, stream[:batches], paper)
    session = Session(encoder, gallery, paper.method, lr=LR)
    assert_same_stream(session, stream[:batches], answers)
    assert_same_params(session, plain)
    pairs = session.state.memory
    assert pairs.batches == min(batches, 10)
    assert pairs.distances.tolist() == pytest.approx(
        sorted(entry[0] for entry in paper.queue.entries), abs=1e-8
    )
    assert paper.queue.sizes == [19, 38, 57, 64, 64, 64, 64, 64, 64, 64][:batches]
    return session


def test_rest_is_the_paper(world):
    session = assert_agree(world, batches=12)
    assert 0 < session.shift().reliable < 1  # some are trusted, some are not


def test_rest_with_decoupling_is_the_paper(world):
    session = assert_agree(world, batches=12, decouple=True)
    assert any(shift.domain_angle > 90 for shift in session.history)
    assert all(shift.applied_angle <= 90 + 1e-6 for shift in session.history)


@pytest.mark.parametrize(
    "choices",
    [
        {"duplicates": "merge"},
        {"own_copies": False},
        {"consistency": "clamp"},
        {"uniformity_scale": 0.1},
        {"decouple": True, "weight_on": "lr"},
        {"decouple": True, "over": "tensor"},
        {"decouple": True, "duplicates": "merge"},
    ],
    ids=str,
)
def test_every_choice_the_paper_leaves_open(world, choices):
    assert_agree(world, batches=3, **choices)


@pytest.mark.parametrize("dropped", ["uniformity", "gap", "entropy", "mining"])
def test_every_term_acts(world, dropped):
    encoder, gallery, stream = world
    whole = Session(encoder, gallery, REST(), lr=LR)
    part = Session(encoder, gallery, REST(**{dropped: False}), lr=LR)
    for session in (whole, part):
        session.answer(stream[0])
    changed = [(value - part.params[name]).abs().max() for name, value in whole.params.items()]
    assert max(changed) > 1e-5
