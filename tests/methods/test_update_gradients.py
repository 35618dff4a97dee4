"""Every method's update against finite differences of the scalar that its step descends.

The tower is tiny and in float64. SAR's and TSA's scalars are written anew, in numpy, and so is
what decoupling makes of two slopes; no slope on the expected side comes from autograd.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from finite_differences import Still, slope
from fixed_retrieval import entropy, pairs, shares, softmax
from torch import Tensor

from queryshift.encoders.encoder import Params
from queryshift.methods import (
    COME,
    EATA,
    METHODS,
    PL,
    READ,
    REST,
    SAR,
    SHOT,
    TCR,
    TSA,
    Decoupled,
    InfoMax,
    Method,
    Refined,
    Tent,
)
from queryshift.methods.base import StepView
from queryshift.methods.decoupled import drift
from queryshift.methods.eata import Familiar, fisher_of
from queryshift.methods.infomax import Learnt
from queryshift.methods.tsa import GALLERY, QUERY, ROUTER
from queryshift.retrieval.forward import Batch, Forward
from queryshift.retrieval.refinement import refined
from toy import ToyEncoder, toy_gallery, toy_queries

SIZE, CANDIDATES, DIMENSION, K, TAU, SEED = 10, 15, 6, 3, 0.2, 3
LEFT_OUT = torch.tensor([(row, column) for row in range(SIZE) for column in (row, 12)])
EXCLUDES = pytest.mark.parametrize("exclude", [None, LEFT_OUT], ids=["all", "some left out"])
Scalar = Callable[[Params], Tensor | float]


class Tower:
    """A tiny encoder with its gallery and one batch, seen away from the source."""

    def __init__(self, exclude: Tensor | None) -> None:
        self.encoder = ToyEncoder(width=6, dimension=DIMENSION, blocks=1, dtype=torch.float64)
        self.gallery = toy_gallery(self.encoder, CANDIDATES)
        self.exclude = exclude
        self.shared = self.encoder.ready(toy_queries(1, SIZE, CANDIDATES)[0])
        self.source = self.encoder.norm_params()

    def look(self, source: Params) -> StepView:
        batch = Batch(self.encoder, self.gallery, self.shared, self.exclude)
        return StepView(batch, moved(source), source, SEED)

    def see(self, params: Params) -> Forward:
        return Forward(self.encoder.through(params, self.shared), self.gallery, self.exclude)

    def descending(self, loss: Callable[[Forward], Tensor], params: Params) -> Scalar:
        """A loss of the retrieval as a function of the parameters, its detached parts held."""
        still = Still(lambda vectors: loss(Forward(vectors, self.gallery, self.exclude)))
        still(self.see(params).vectors)
        return lambda there: still(self.see(there).vectors)


def moved(source: Params) -> Params:
    generator = torch.Generator().manual_seed(0)
    return {
        name: value + 0.1 * torch.randn(value.shape, generator=generator, dtype=value.dtype)
        for name, value in source.items()
    }


def agree(found: Params | None, expected: Params) -> None:
    assert found is not None and found.keys() == expected.keys()
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-5, atol=1e-7)
    assert max(float(value.abs().max()) for value in expected.values()) > 1e-3


LOSSES: dict[str, tuple[Method, object]] = {
    "tent": (Tent(temperature=TAU), None),
    "pl": (PL(temperature=TAU, confidence=0.2), None),
    "shot": (SHOT(temperature=TAU, confidence=0.2), None),
    "eata": (EATA(temperature=TAU), Familiar(chosen=torch.arange(SIZE) % 2 == 0)),
    "read": (READ(temperature=TAU), None),
    "come": (COME(temperature=TAU), None),
    "tcr": (TCR(temperature=TAU), pairs(entropy_limit=2.2)),
    "rest": (REST(temperature=TAU, neighbours=K), pairs(entropy_limit=2.2)),
    "infomax": (
        InfoMax(temperature=TAU),
        Learnt(2),
    ),
    "tent+refined": (Refined(Tent(temperature=TAU), neighbours=K), None),
}


@EXCLUDES
@pytest.mark.parametrize("name", LOSSES)
def test_the_slope_of_the_loss(name, exclude):
    method, memory = LOSSES[name]
    tower = Tower(exclude)
    look = tower.look(tower.source)
    scalar = tower.descending(lambda seen: method.loss(seen, memory), look.params)
    agree(method.gradient(look, memory).gradient, slope(scalar, look.params))


@EXCLUDES
@pytest.mark.parametrize("filter", ["quantile", "log"])
def test_sar_descends_the_entropy_at_the_worst_point_nearby(filter, exclude):
    method = SAR(temperature=TAU, filter=filter, share=0.9, radius=0.3, reset_below=None)
    tower = Tower(exclude)
    look = tower.look(tower.source)

    def entropies(params: Params) -> np.ndarray:
        return entropy(shares(tower.see(params), TAU))

    here = entropies(look.params)
    limit = np.sort(here)[int(0.9 * SIZE) - 1] if filter == "quantile" else 0.9 * np.log(CANDIDATES)
    reliable = here <= limit
    uphill = slope(lambda params: entropies(params)[reliable].mean(), look.params)
    length = sum(float(value.square().sum()) for value in uphill.values()) ** 0.5
    offset = {name: 0.3 / length * value for name, value in uphill.items()}

    def beside(params: Params) -> np.ndarray:
        return entropies({name: value + offset[name] for name, value in params.items()})

    kept = reliable & (beside(look.params) < limit)
    assert 0 < kept.sum() < reliable.sum() or filter == "log"
    update = method.gradient(look, None)
    agree(update.gradient, slope(lambda params: beside(params)[kept].mean(), look.params))
    assert update.memory == pytest.approx(beside(look.params)[kept].mean(), abs=1e-6)


def tsa_scalar(method: TSA, tower: Tower) -> Scalar:
    """Confident pseudo-labels minus balance, over two branches mixed as the router drew."""
    generator = torch.Generator().manual_seed(SEED)
    uniform = torch.rand(SIZE, 2, generator=generator, dtype=torch.float64).numpy()
    gumbel = -np.log(-np.log(uniform))
    queries, candidates = tower.see(tower.source).vectors.detach(), tower.gallery.vectors[:, 0]
    queries, candidates = queries.numpy(), candidates.numpy()

    def scalar(params: Params) -> float:
        maps = {name: value.numpy() for name, value in params.items()}
        mapped_queries, mapped_candidates = (
            unit(queries @ (np.eye(DIMENSION) + maps[QUERY])),
            unit(candidates @ (np.eye(DIMENSION) + maps[GALLERY])),
        )
        side = softmax((maps[ROUTER] + gumbel) / method.router_temperature)[:, :1]
        query_side, gallery_side = mapped_queries @ candidates.T, queries @ mapped_candidates.T
        mixed = side * query_side + (1 - side) * gallery_side
        if tower.exclude is not None:
            mixed[tuple(tower.exclude.numpy().T)] = -np.inf
        shared = softmax(mixed / TAU)
        first = shared.max(axis=1)
        sure = first > method.confidence
        assert 1 < sure.sum() < SIZE if method.confidence < 0.3 else sure.sum() == 1
        labels = -np.log(first[sure]).mean()
        return method.label_weight * labels - entropy(softmax(shared.sum(axis=0)))

    return scalar


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("exclude", "confidence"),
    [(None, 0.2), (None, 0.356), (LEFT_OUT, 0.2), (LEFT_OUT, 0.42)],
    ids=["all", "all, one sure", "some left out", "some left out, one sure"],
)
def test_tsa_descends_pseudo_labels_minus_balance(exclude, confidence):
    method = TSA(temperature=TAU, confidence=confidence, router_temperature=0.7)
    tower = Tower(exclude)
    look = tower.look(method.adapts(tower.encoder, tower.gallery))
    expected = slope(tsa_scalar(method, tower), look.params)
    agree(method.gradient(look, None).gradient, expected)
    assert all(value.abs().max() > 1e-4 for value in expected.values())


def test_eata_is_pulled_back_to_the_source_where_parameters_matter():
    tower = Tower(None)
    fisher = {name: value.abs() for name, value in moved(tower.source).items()}
    method = EATA(temperature=TAU, fisher=fisher, fisher_weight=3.0)
    memory = Familiar(chosen=torch.arange(SIZE) % 2 == 0)
    look = tower.look(tower.source)
    loss = tower.descending(lambda seen: method.loss(seen, memory), look.params)

    def scalar(params: Params) -> Tensor:
        away = {name: value - tower.source[name] for name, value in params.items()}
        return loss(params) + 3 * sum((fisher[n] * away[n].square()).sum() for n in away)

    agree(method.gradient(look, memory).gradient, slope(scalar, look.params))


def test_importance_is_the_mean_square_of_the_slopes_of_batches_of_64():
    encoder = ToyEncoder(width=6, dimension=DIMENSION, blocks=1, dtype=torch.float64)
    gallery = toy_gallery(encoder, CANDIDATES)
    clean = toy_queries(1, 100, CANDIDATES)[0]
    total = {name: torch.zeros_like(value) for name, value in encoder.norm_params().items()}
    for part in (clean[:64], clean[64:]):
        shared = encoder.ready(part)

        def scalar(params: Params, shared=shared) -> Tensor:
            seen = Batch(encoder, gallery, shared).forward(params, graph=False)
            return -(seen.scores / 0.01).log_softmax(dim=1).amax(dim=1).mean()

        for name, value in slope(scalar, encoder.norm_params()).items():
            total[name] += value.square() / 2
    agree(fisher_of(encoder, gallery, clean), total)


DECOUPLED: dict[str, tuple[Method, Method, object]] = {
    "rest": (
        REST(temperature=TAU, neighbours=K, decouple=True),
        REST(temperature=TAU, neighbours=K),
        pairs(entropy_limit=2.2),
    ),
    "tent+decoupled": (
        Decoupled(Tent(temperature=TAU), neighbours=K, drift_temperature=TAU),
        Tent(temperature=TAU),
        None,
    ),
}


@pytest.mark.parametrize("name", DECOUPLED)
def test_decoupling_takes_from_one_slope_what_goes_against_another(name):
    method, plain, memory = DECOUPLED[name]
    tower = Tower(None)
    look = tower.look(tower.source)
    source = tower.see(tower.source)

    def general(seen: Forward) -> Tensor:
        return drift(source, refined(seen, K, TAU))

    losses = (lambda seen: plain.loss(seen, memory), general)
    first, second = (slope(tower.descending(one, look.params), look.params) for one in losses)
    domain, away = (np.concatenate([v.flatten() for v in one.values()]) for one in (first, second))
    against = min(domain @ away, 0) / (away @ away)
    weight = np.exp(-float(general(tower.see(look.params))))
    expected = {n: weight * (value - against * second[n]) for n, value in first.items()}
    agree(method.gradient(look, memory).gradient, expected)


def test_no_method_is_left_out():
    still = {name for name, method in METHODS.items() if not trains(method())}
    assert still == {"frozen", "tcr_untrained"}
    assert METHODS.keys() - still == (LOSSES.keys() & METHODS.keys()) | {"sar", "tsa"}


def trains(method: Method) -> bool:
    tower = Tower(None)
    return method.adapting and bool(method.adapts(tower.encoder, tower.gallery))
