"""Tent with refinement, with decoupling, and with both, against a plain loop."""

import pytest
import torch
from paper_loop import TAU, K, Paper
from plain_loops import Plain, assert_same_params, assert_same_stream, entropies, play
from torch import Tensor

from queryshift.methods import Decoupled, Method, Refined, Tent
from queryshift.sessions.session import Session
from toy import ToyEncoder, toy_gallery, toy_queries

LR, TENT_TAU = 3e-3, 0.01


class WrappedTent:
    """Tent over all or over the refined candidates, plain or decoupled."""

    def __init__(self, paper: Paper, refine: bool, decouple: bool) -> None:
        self.paper, self.refine, self.decouple = paper, refine, decouple

    def __call__(self, plain: Plain, items: Tensor, number: int, step: int) -> Tensor:
        queries = plain.model(items)
        lists = plain.scores(queries).topk(K, dim=1).indices.tolist()
        positives = plain.gallery[[listed[0] for listed in lists]]
        columns = positives, [self.paper.negatives(lists, i) for i in range(len(lists))]
        loss = entropies(plain.scores(queries) / TENT_TAU).mean()
        if self.refine:
            rows = self.paper.predictions(plain, queries, *columns, tau=TENT_TAU)
            loss = torch.stack([torch.special.entr(row).sum() for row in rows]).mean()
        slopes = plain.slopes(loss)
        if self.decouple:
            before = self.paper.predictions(plain, plain.source(items), *columns, tau=TAU)
            now = self.paper.predictions(plain, queries, *columns, tau=TAU)
            slopes = self.paper.decoupled(plain, slopes, before, now)
        plain.step(slopes)
        return plain.scores(queries)


CASES = {
    "refined": Refined(Tent()),
    "refined, merged": Refined(Tent(), duplicates="merge"),
    "decoupled": Decoupled(Tent()),
    "decoupled, weight on the rate": Decoupled(Tent(), weight_on="lr"),
    "decoupled, each tensor": Decoupled(Tent(), over="tensor"),
    "refined and decoupled": Decoupled(Refined(Tent())),
}


@pytest.mark.parametrize("name", CASES)
def test_tent_wrapped(name):
    method: Method = CASES[name]
    encoder = ToyEncoder(dtype=torch.float64)
    gallery, batches = toy_gallery(encoder, 150), toy_queries(3, 32, 150)
    plain = Plain(encoder, gallery, LR, TENT_TAU)
    given = {
        f: getattr(method, f) for f in ("duplicates", "weight_on", "over") if hasattr(method, f)
    }
    paper = Paper(gallery.centroids(K), **given)
    rule = WrappedTent(paper, refine="refined" in name, decouple="decoupled" in name)
    answers = play(plain, batches, rule)
    session = Session(encoder, gallery, method, lr=LR, guard=None)
    assert_same_stream(session, batches, answers)
    assert_same_params(session, plain)
