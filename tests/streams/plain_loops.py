"""Adaptation the straightforward way: a model's own norm layers, changed in place by torch."""

import copy
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from queryshift.encoders.encoder import Encoder
from queryshift.galleries import Gallery
from queryshift.sessions.session import Session

SIZE = 64  # of a batch, and of the queue
CLOSE = {"atol": 1e-8, "rtol": 0}


class Plain:
    """A model that adapts in place, a frozen copy of it, and the gallery as one matrix."""

    def __init__(self, encoder: Encoder, gallery: Gallery, lr: float, tau: float) -> None:
        self.model = copy.deepcopy(encoder).eval().requires_grad_(False)
        self.source = copy.deepcopy(self.model)
        self.gallery, self.lr, self.tau = gallery.vectors[:, 0], lr, tau
        self.params = {
            f"{name}.{part}": value.requires_grad_()
            for name, module in self.model.named_modules()
            if isinstance(module, nn.LayerNorm)
            for part, value in module.named_parameters()
        }
        self.start = {name: value.detach().clone() for name, value in self.params.items()}
        self.restart()

    def restart(self) -> None:
        """Back to the first values, with a new optimiser."""
        with torch.no_grad():
            for name, value in self.params.items():
                value.copy_(self.start[name])
        self.optimiser = torch.optim.AdamW(self.params.values(), lr=self.lr, weight_decay=1e-4)

    def scores(self, queries: Tensor) -> Tensor:
        return queries @ self.gallery.T

    def slopes(self, loss: Tensor) -> list[Tensor]:
        """Of every adapted parameter; the graph may be used again."""
        return list(torch.autograd.grad(loss, list(self.params.values()), retain_graph=True))

    def step(self, slopes: Iterable[Tensor]) -> None:
        for value, slope in zip(self.params.values(), slopes, strict=True):
            value.grad = slope
        self.optimiser.step()


Rule = Callable[[Plain, Tensor, int, int], Tensor | None]
"""(plain, items, batch, step) -> the scores that would be answered; it changes `plain`."""


def play(plain: Plain, batches: list[Tensor], rule: Rule, steps: int = 3) -> list[Tensor]:
    """Scores (B, N) of each batch, from the last step's forward."""
    answers = []
    for number, items in enumerate(batches):
        items = items.to(plain.gallery.dtype)
        for step in range(steps):
            answer = rule(plain, items, number, step)
        answers.append(answer.detach())
    return answers


def descend(loss_of: Callable[[Plain, Tensor, int, int], Tensor | None]) -> Rule:
    """The rule of a method that follows its loss; None means there is nothing to learn."""

    def rule(plain: Plain, items: Tensor, number: int, step: int) -> Tensor:
        queries = plain.model(items)
        loss = loss_of(plain, queries, number, step)
        if loss is not None:
            plain.step(plain.slopes(loss))
        return plain.scores(queries)

    return rule


def entropies(scores: Tensor) -> Tensor:
    """Entropy of each row's softmax, by its definition."""
    return -(scores.softmax(dim=1) * scores.log_softmax(dim=1)).sum(dim=1)


class Queue:
    """A list of (s, query, positive, entropy), as in the published code."""

    def __init__(self) -> None:
        self.entries: list[tuple[float, Tensor, Tensor, float]] = []
        self.sizes: list[int] = []

    def update(self, queries: Tensor, positives: Tensor, unsure: Tensor) -> None:
        q, p = queries.detach(), positives.detach()
        s = 2 * (q - p).norm(dim=1) - (q - q.mean(0)).norm(dim=1) - (p - p.mean(0)).norm(dim=1)
        for i in s.argsort()[: int(0.3 * len(q))].tolist():
            self.entries.append((s[i].item(), q[i], p[i], unsure[i].item()))
        if len(self.entries) >= SIZE:
            self.entries = sorted(self.entries, key=lambda entry: entry[0])[:SIZE]
        self.sizes.append(len(self.entries))

    @property
    def gap(self) -> Tensor:
        queries = torch.stack([query for _, query, _, _ in self.entries]).mean(0)
        positives = torch.stack([positive for _, _, positive, _ in self.entries]).mean(0)
        return (queries - positives).norm()

    @property
    def limit(self) -> float:
        return max(entropy for *_, entropy in self.entries)


def assert_same_stream(session: Session, batches: list[Tensor], answers: list[Tensor]) -> None:
    """Every candidate's answered score agrees, for every query of every batch."""
    for items, expected in zip(batches, answers, strict=True):
        hits = session.answer(list(items)).top(expected.shape[1])
        torch.testing.assert_close(hits.scores, expected.gather(1, hits.positions), **CLOSE)


def assert_same_params(session: Session, plain: Plain) -> None:
    """The adapted parameters agree, and they have moved."""
    assert session.params.keys() == plain.params.keys()
    for name, value in session.params.items():
        torch.testing.assert_close(value, plain.params[name].detach(), **CLOSE)
    moved = [(plain.params[name] - plain.start[name]).abs().max() for name in plain.params]
    assert max(moved) > 1e-3
