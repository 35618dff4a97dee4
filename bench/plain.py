"""Tent, TCR and REST as most would write them: the peers that the library is measured beside.

A copied model whose norm layers take gradients, torch's AdamW, autocast, the scores of the whole
gallery with a graph, a queue that is a Python list; for decoupling a second, frozen model in every
step and two backward passes. Mathematically the library's, which this script shows:

    python bench/plain.py [--tower vit] [--side 32] [--depth 2]

It adapts to two batches with both, in float32 on the CPU, and prints the largest difference between
adapted parameters. The floor is rounding; above a fiftieth of what was learnt it fails.
"""

from __future__ import annotations

import copy
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from rows import Rows, parser
from torch import Tensor, nn
from torch.nn.functional import kl_div
from towers import add_options, batch_for, encoder_for, gallery_for, twin_for

from queryshift import REST, TCR, Encoder, Gallery, Method, Session, Tent
from queryshift.encoders.prepared import move

STEPS, NEIGHBOURS = 3, 10
QUEUE_BATCHES, QUEUE_SHARE, MARGIN = 10, 0.3, 1e-3
AGREE = 0.02


@dataclass(frozen=True)
class Setting:
    """What a loop adapts, to what, and how fast."""

    model: nn.Module
    gallery: Gallery
    lr: float
    temperature: float
    half: torch.dtype | None = None

    @property
    def candidates(self) -> Tensor:
        return self.gallery.vectors[:, 0]

    @property
    def centroids(self) -> Tensor:
        return self.gallery.centroids(NEIGHBOURS)


class PlainTent:
    """Mean entropy over the whole gallery; the loop that the other methods share."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.batches = setting, 0
        self.model = copy.deepcopy(setting.model).eval().requires_grad_(False)
        self.weights = {
            f"{name}.{part}": weight.requires_grad_()
            for name, module in self.model.named_modules()
            if isinstance(module, nn.LayerNorm)
            for part, weight in module.named_parameters()
        }
        values = self.weights.values()
        self.optimiser = torch.optim.AdamW(values, lr=setting.lr, weight_decay=1e-4)

    def answer(self, inputs: Any) -> Tensor:
        """Adapt to a batch, then answer it from the last forward."""
        for step in range(STEPS):
            queries = self.encode(self.model, inputs)
            scores = queries @ self.setting.candidates.T
            self.optimiser.zero_grad()
            self.backward(queries, scores, step, inputs)
            self.optimiser.step()
        self.batches += 1
        return scores.topk(10).indices.cpu()

    def encode(self, model: nn.Module, inputs: Any) -> Tensor:
        with self.precision():
            return model(inputs).float()

    def precision(self) -> AbstractContextManager[Any]:
        half = self.setting.half
        kind = self.setting.candidates.device.type
        return nullcontext() if half is None else torch.autocast(kind, half)

    def backward(self, queries: Tensor, scores: Tensor, step: int, inputs: Any) -> None:
        entropies(scores / self.setting.temperature).mean().backward()


class PlainTCR(PlainTent):
    """Reliable entropy over the batch's first places, uniformity, and the source's gap."""

    scale = 0.1

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.queue: list[tuple[float, Tensor, Tensor, float]] = []

    def backward(self, queries: Tensor, scores: Tensor, step: int, inputs: Any) -> None:
        positives = self.setting.candidates[scores.argmax(dim=1)]
        unsure = entropies(queries @ positives.T / self.setting.temperature)
        self.remember(queries, positives, unsure, step)
        weights = self.reliability(unsure) * (unsure.detach() <= self.limit)
        loss = mean_of_trusted(unsure, weights) + self.spread_and_gap(queries, positives)
        loss.backward()

    def remember(self, queries: Tensor, positives: Tensor, unsure: Tensor, step: int) -> None:
        """Keep the pairs of the first batches that look most like the source's."""
        if step > 0 or self.batches >= QUEUE_BATCHES:
            return
        q, p = queries.detach(), positives.detach()
        s = 2 * (q - p).norm(dim=1) - (q - q.mean(0)).norm(dim=1) - (p - p.mean(0)).norm(dim=1)
        for i in s.argsort()[: max(1, int(QUEUE_SHARE * len(q)))].tolist():
            self.queue.append((s[i].item(), q[i], p[i], unsure[i].item()))
        self.queue = sorted(self.queue, key=lambda entry: entry[0])[: len(q)]

    def spread_and_gap(self, queries: Tensor, positives: Tensor) -> Tensor:
        """Eq. 7 and 9."""
        centre = queries.mean(0)
        uniformity = torch.exp(-self.scale * (queries - centre).norm(dim=1)).mean()
        before = torch.stack([query for _, query, _, _ in self.queue]).mean(0)
        found = torch.stack([positive for _, _, positive, _ in self.queue]).mean(0)
        source_gap = (before - found).norm()
        return uniformity + ((centre - positives.mean(0)).norm() - source_gap) ** 2

    def reliability(self, unsure: Tensor) -> Tensor:
        return (1 - unsure.detach() / (self.limit + MARGIN)).clamp(min=0)

    @property
    def limit(self) -> float:
        return max(entropy for *_, entropy in self.queue)


class PlainREST(PlainTCR):
    """The paper's losses over refined predictions."""

    scale = 1.0

    def backward(self, queries: Tensor, scores: Tensor, step: int, inputs: Any) -> None:
        loss, _ = self.loss(queries, scores, step)
        loss.backward()

    def loss(self, queries: Tensor, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Eq. 3, and the lists it was taken over."""
        lists = scores.topk(NEIGHBOURS, dim=1).indices
        similarities = self.refined(queries, lists)
        unsure = entropies(similarities / self.setting.temperature)
        positives = self.setting.candidates[lists[:, 0]]
        self.remember(queries, positives, unsure, step)
        weights = self.reliability(unsure)
        copies = lists.flatten() == lists[:, :1]
        listed = similarities[:, 1 : 1 + lists.numel()].masked_fill(copies, -torch.inf)
        hardest = listed.amax(dim=1)
        margins = ((1 + hardest) / 2).log() - ((1 + similarities[:, 0]) / 2).log()
        trusted = mean_of_trusted(unsure, weights) + mean_of_trusted(margins, weights)
        return trusted + self.spread_and_gap(queries, positives), lists

    def refined(self, queries: Tensor, lists: Tensor) -> Tensor:
        """Eq. 4: a query's positive, the other queries' lists, the centroids of the gallery."""
        candidates = self.setting.candidates
        own = (queries * candidates[lists[:, 0]]).sum(dim=1, keepdim=True)
        owner = torch.arange(len(lists), device=lists.device).repeat_interleave(lists.shape[1])
        mine = owner == torch.arange(len(lists), device=lists.device)[:, None]
        listed = (queries @ candidates[lists.flatten()].T).masked_fill(mine, -torch.inf)
        return torch.cat((own, listed, queries @ self.setting.centroids.T), dim=1)


class PlainDecoupledREST(PlainREST):
    """REST whose gradient never points against what a frozen copy of the model predicts."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.source = copy.deepcopy(setting.model).eval().requires_grad_(False)

    def backward(self, queries: Tensor, scores: Tensor, step: int, inputs: Any) -> None:
        loss, lists = self.loss(queries, scores, step)
        loss.backward(retain_graph=True)
        domain = self.gradients()
        drift = self.drift(queries, lists, inputs)
        self.optimiser.zero_grad()
        drift.backward()
        general = self.gradients()
        against = sum((d * g).sum() for d, g in zip(domain, general, strict=True))
        size = sum((g * g).sum() for g in general)
        share = against / size if drift > 1e-8 and against < 0 else 0.0
        adapted = [weight for weight in self.weights.values() if weight.grad is not None]
        for weight, d, g in zip(adapted, domain, general, strict=True):
            weight.grad = torch.exp(-drift.detach()) * (d - share * g)

    def drift(self, queries: Tensor, lists: Tensor, inputs: Any) -> Tensor:
        """How far the prediction has moved from the source's, on the same columns."""
        with torch.no_grad():
            before = self.encode(self.source, inputs)
            before = self.refined(before, lists) / self.setting.temperature
        now = self.refined(queries, lists) / self.setting.temperature
        absent = torch.isneginf(now)
        now, before = (one.log_softmax(dim=1).masked_fill(absent, -1e4) for one in (now, before))
        return kl_div(now, before, reduction="batchmean", log_target=True)

    def gradients(self) -> list[Tensor]:
        grads = [weight.grad for weight in self.weights.values()]
        return [grad.clone() for grad in grads if grad is not None]


def entropies(logits: Tensor) -> Tensor:
    """Entropy of each row's softmax; absent columns are -inf."""
    logs = logits.log_softmax(dim=1)
    return -(logs.exp() * logs.masked_fill(torch.isneginf(logs), 0)).sum(dim=1)


def mean_of_trusted(values: Tensor, weights: Tensor) -> Tensor:
    return (weights * values).sum() / max(1, int((weights != 0).sum()))


LOOPS: dict[str, tuple[type[PlainTent], Method]] = {
    "tent": (PlainTent, Tent()),
    "tcr": (PlainTCR, TCR()),
    "rest": (PlainREST, REST()),
    "rest+decoupled": (PlainDecoupledREST, REST(decouple=True)),
}
"""The plain loop of a method, and the method."""


def loop(
    name: str, twin: nn.Module, encoder: Encoder, gallery: Gallery, half: torch.dtype | None = None
) -> PlainTent:
    """A plain loop with the learning rate and temperature that the library takes."""
    kind, method = LOOPS[name]
    known = method.resolved(encoder)
    return kind(Setting(twin, gallery, known.rate, known.tau, half))


def main() -> None:
    asking = parser(__doc__, rounds=2)
    add_options(asking, tower="vit", side=32)
    asking.set_defaults(depth=2, precision="float32")
    asked = asking.parse_args()
    encoder, twin = encoder_for(asked), twin_for(asked)
    gallery = gallery_for(asked, 500)
    rows = Rows(asked, "rounding", {"method": "", "moved": ".1e", "difference": ".1e"})
    for name, (_, method) in LOOPS.items():
        session, plain = (
            Session(encoder, gallery, method, guard=None),
            loop(name, twin, encoder, gallery),
        )
        for number in range(asked.rounds):
            items = batch_for(asked, 16, seed=number)
            session.answer(items)
            plain.answer(move(encoder.prepare(items), encoder.device))
        found = compared(session, plain, encoder)
        rows.add({"method": name, **found})
        if not found["difference"] < AGREE * found["moved"]:
            sys.exit(f"{name}: the plain loop is not the library's any more.")


def compared(session: Session, plain: PlainTent, encoder: Encoder) -> dict[str, float]:
    """The largest change of a parameter, and the largest difference between both."""
    source, params = encoder.norm_params(), session.params
    return {
        "moved": max(float((value - source[name]).abs().max()) for name, value in params.items()),
        "difference": max(
            float((value - plain.weights[name].detach()).abs().max())
            for name, value in params.items()
        ),
    }


if __name__ == "__main__":
    main()
