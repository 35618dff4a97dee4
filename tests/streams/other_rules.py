"""The other methods as plain loops, each written from its own paper and published code."""

import copy
from dataclasses import dataclass, field

import torch
from plain_loops import Plain, descend, entropies
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy


@descend
def tent(plain: Plain, queries: Tensor, number: int, step: int) -> Tensor:
    return entropies(plain.scores(queries) / plain.tau).mean()


@descend
def pl(plain: Plain, queries: Tensor, number: int, step: int) -> Tensor | None:
    logits = plain.scores(queries) / plain.tau
    confidence, labels = logits.softmax(1).max(1)
    kept = confidence > 0.9
    return cross_entropy(logits[kept], labels[kept]) if kept.any() else None


@descend
def shot(plain: Plain, queries: Tensor, number: int, step: int) -> Tensor:
    logits = plain.scores(queries) / plain.tau
    shares = logits.softmax(1)
    mean = shares.mean(0)
    loss = entropies(logits).mean() + (mean * torch.log(mean + 1e-5)).sum()
    confidence, labels = shares.max(1)
    kept = confidence > 0.9
    return loss + 0.1 * cross_entropy(logits[kept], labels[kept]) if kept.any() else loss


@descend
def read(plain: Plain, queries: Tensor, number: int, step: int) -> Tensor:
    shares = (plain.scores(queries) / plain.tau).softmax(1)
    first = shares.max(1).values
    return (-first * first.log()).mean() - entropies(shares.sum(0)[None])[0]


@descend
def come(plain: Plain, queries: Tensor, number: int, step: int) -> Tensor:
    logits = plain.scores(queries) / plain.tau
    length = logits.norm(dim=1, keepdim=True)
    evidence = torch.exp(logits / length * length.detach())
    classes = logits.shape[1]
    total = evidence.sum(1, keepdim=True) + classes
    opinion = torch.cat((evidence, torch.full_like(total, classes)), dim=1) / total
    return -(opinion * opinion.log()).sum(1).mean()


@dataclass
class Eata:
    """EATA as ported to retrieval: 40 % of each batch, then those unlike the moving mean."""

    fisher: dict[str, Tensor] | None = None
    log_filter: bool = False
    mean: Tensor | None = None
    kept: list[int] = field(default_factory=list)

    def __call__(self, plain: Plain, queries: Tensor, number: int, step: int) -> Tensor | None:
        logits = plain.scores(queries) / plain.tau
        unsure, shares = entropies(logits), logits.softmax(1).detach()
        if self.log_filter:
            margin = 0.4 * float(torch.log(torch.tensor(logits.shape[1], dtype=torch.float64)))
            chosen = unsure.detach() < margin
        else:
            margin, limit = 0.4, unsure.detach().sort().values[int(0.4 * len(unsure)) - 1]
            chosen = unsure.detach() <= limit
        if self.mean is not None:
            chosen &= cosine_similarity(shares, self.mean[None], dim=1).abs() < 0.05
        self.kept.append(int(chosen.sum()))
        if not chosen.any():
            return None
        fresh = shares[chosen].mean(0)
        self.mean = fresh if self.mean is None else 0.9 * self.mean + 0.1 * fresh
        loss = (torch.exp(margin - unsure.detach()) * unsure)[chosen].mean()
        return loss + self.anchor(plain)

    def anchor(self, plain: Plain) -> Tensor | float:
        if self.fisher is None:
            return 0.0
        pulls = [
            (self.fisher[name] * (value - plain.start[name]) ** 2).sum()
            for name, value in plain.params.items()
        ]
        return 2000 * torch.stack(pulls).sum()


def fisher(plain: Plain, clean: Tensor) -> dict[str, Tensor]:
    """Mean over batches of 64 of the squared gradient of the pseudo-label loss."""
    total = {name: torch.zeros_like(value) for name, value in plain.start.items()}
    batches = clean.split(64)
    for items in batches:
        logits = plain.scores(plain.model(items)) / plain.tau
        slopes = plain.slopes(cross_entropy(logits, logits.argmax(1)))
        for name, slope in zip(total, slopes, strict=True):
            total[name] += slope**2 / len(batches)
    return total


@dataclass
class Sar:
    """SAR as ported to retrieval: SAM around AdamW, and back to the start when all is easy."""

    keep_average: bool = False
    average: float | None = None
    resets: int = 0

    def __call__(self, plain: Plain, items: Tensor, number: int, step: int) -> Tensor:
        queries = plain.model(items)
        scores = plain.scores(queries)
        unsure = entropies(scores / plain.tau)
        limit = unsure.detach().sort().values[int(0.4 * len(unsure)) - 1]
        first = unsure <= limit
        again = self.uphill(plain, items, plain.slopes(unsure[first].mean()))[first]
        again = again[again < limit]
        if len(again) == 0:
            return scores
        loss = again.mean()
        slopes = plain.slopes(loss)
        self.restore(plain)
        value = loss.item()
        self.average = value if self.average is None else 0.9 * self.average + 0.1 * value
        plain.step(slopes)
        if self.average < 0.2:
            plain.restart()
            self.resets += 1
            self.average = self.average if self.keep_average else None
        return scores

    def uphill(self, plain: Plain, items: Tensor, slopes: list[Tensor]) -> Tensor:
        """Entropies at the worst nearby point, where the model stays until `restore`."""
        length = torch.cat([slope.flatten() for slope in slopes]).norm()
        self.here = {name: value.detach().clone() for name, value in plain.params.items()}
        with torch.no_grad():
            for value, slope in zip(plain.params.values(), slopes, strict=True):
                value.add_(slope * 0.05 / (length + 1e-12))
        return entropies(plain.scores(plain.model(items)) / plain.tau)

    def restore(self, plain: Plain) -> None:
        with torch.no_grad():
            for name, value in plain.params.items():
                value.copy_(self.here[name])


class Modules(Plain):
    """TSA's: the model is frozen, two maps and a router adapt."""

    def __init__(self, *about) -> None:
        super().__init__(*about)
        self.model = copy.deepcopy(self.source)
        size = self.gallery.shape[1]
        shapes = {"tsa.query": (size, size), "tsa.gallery": (size, size), "tsa.router": (2,)}
        self.params = {
            name: nn.Parameter(self.gallery.new_zeros(shape)) for name, shape in shapes.items()
        }
        self.start = {name: value.detach().clone() for name, value in self.params.items()}
        self.restart()


def tsa(plain: Modules, items: Tensor, number: int, step: int) -> Tensor:
    """TSA over the whole gallery."""
    queries = plain.model(items)
    everyone = [plain.gallery] * len(items)
    both = tsa_step(plain, queries, everyone, number * 64 + step)
    return torch.stack(both).mean(0)


def tsa_step(
    plain: Modules, queries: Tensor, candidates: list[Tensor], seed: int
) -> tuple[Tensor, Tensor]:
    """One update, each query with candidates of its own (C, D); both branches' similarities."""
    phi_q, phi_g, router = plain.params.values()
    query_side = torch.stack(
        [own @ moved(query, phi_q) for query, own in zip(queries, candidates, strict=True)]
    )
    gallery_side = torch.stack(
        [moved(own, phi_g) @ query for query, own in zip(queries, candidates, strict=True)]
    )
    drawn = torch.Generator().manual_seed(seed)
    uniform = torch.rand(len(queries), 2, generator=drawn, dtype=torch.float64)
    route = torch.softmax((router - torch.log(-torch.log(uniform))) / 1e-3, dim=1)
    logits = (route[:, :1] * query_side + route[:, 1:] * gallery_side) / plain.tau
    shares = logits.softmax(1)
    confidence, labels = shares.max(1)
    kept = confidence > 0.9
    labelled = cross_entropy(logits[kept], labels[kept]) if kept.any() else 0.0
    plain.step(plain.slopes(0.5 * labelled - entropies(shares.sum(0)[None])[0]))
    return query_side.detach(), gallery_side.detach()


def moved(vectors: Tensor, phi: Tensor) -> Tensor:
    mapped = vectors @ (torch.eye(len(phi)) + phi)
    return mapped / mapped.norm(dim=-1, keepdim=True)
