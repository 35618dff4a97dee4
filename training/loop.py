"""The one training loop: AdamW, a warm-up, a cosine to zero, bfloat16 where a GPU is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from training.checkpoint import Checkpoint
from training.journal import Journal

WARM_UP = 0.05
KEEP_EVERY = 60  # seconds


@dataclass(frozen=True)
class Plan:
    """How long and how fast; the schedule ends at `steps` or at `seconds`, whichever is first."""

    steps: int
    batch: int
    lr: float = 1e-3
    decay: float = 0.05
    seconds: float = math.inf
    seed: int = 0

    def done(self, steps: int, seconds: float) -> float:
        """How much of the schedule is behind after so many steps and seconds: 1 is all."""
        return max(steps / self.steps, seconds / self.seconds)


class Temperature(nn.Module):
    """CLIP's learned scale of the cosines, at most 100."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, cosines: Tensor) -> Tensor:
        return cosines * self.log_scale.exp().clamp(max=100)


def contrast(scale: Temperature, queries: Tensor, candidates: Tensor) -> Tensor:
    """Each query finds the candidate of its own row, and that candidate finds the query."""
    queries, candidates = normalize(queries.float(), dim=-1), normalize(candidates.float(), dim=-1)
    logits = scale(queries @ candidates.T)
    right = torch.arange(len(queries), device=logits.device)
    back = logits[:, : len(queries)].T
    return (cross_entropy(logits, right) + cross_entropy(back, right)) / 2


def train(
    modules: nn.Module, loss: Callable[[torch.Generator], Tensor], plan: Plan, log: Path
) -> None:
    """Take steps down `loss`, which draws its own batch from the generator it is given.

    On a CPU, where it takes hours, a stopped run resumes from its last checkpoint.
    """
    device = next(modules.parameters()).device
    chance = torch.Generator(device).manual_seed(plan.seed)
    lr = torch.tensor(plan.lr * _rate(0), device=device)
    modules.train()
    optimiser = _optimiser(modules, lr, plan.decay)
    step = _step(modules, loss, chance, optimiser)
    step = _captured(step, chance) if device.type == "cuda" else step
    checkpoint = Checkpoint(log.with_suffix(".part"), vars(plan), modules, optimiser, chance)
    steps, seconds = checkpoint.resume() if device.type == "cpu" else (0, 0.0)
    journal = Journal(log, steps)
    begun, written, done = time.perf_counter() - seconds, seconds, plan.done(steps, seconds)
    while done < 1:
        lr.fill_(plan.lr * _rate(done))
        value = step()
        steps, seconds = steps + 1, time.perf_counter() - begun
        done = plan.done(steps, seconds)
        journal.note(steps, value, seconds, done)
        if device.type == "cpu" and (seconds - written >= KEEP_EVERY or done >= 1):
            checkpoint.write(steps, seconds)
            written = seconds
    modules.eval()


def _optimiser(modules: nn.Module, lr: Tensor, decay: float) -> torch.optim.Optimizer:
    flat = [p for p in modules.parameters() if p.ndim < 2]
    deep = [p for p in modules.parameters() if p.ndim >= 2]
    groups = [{"params": deep, "weight_decay": decay}, {"params": flat, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        groups, lr=lr, betas=(0.9, 0.98), fused=lr.is_cuda, capturable=lr.is_cuda
    )


def _step(
    modules: nn.Module,
    loss: Callable[[torch.Generator], Tensor],
    chance: torch.Generator,
    optimiser: torch.optim.Optimizer,
) -> Callable[[], Tensor]:
    kind = chance.device.type

    def step() -> Tensor:
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            value = loss(chance)
        optimiser.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(modules.parameters(), 1.0)
        optimiser.step()
        return value.detach()

    return step


def _captured(step: Callable[[], Tensor], chance: torch.Generator) -> Callable[[], Tensor]:
    """The step as one CUDA graph: models this small would otherwise wait for kernel launches."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(chance)
    try:
        with torch.cuda.graph(graph):
            value = step()
    except RuntimeError as problem:
        print("no CUDA graph, stepping eagerly:", problem, flush=True)
        return step

    def replay() -> Tensor:
        graph.replay()
        return value

    return replay


def _rate(done: float) -> float:
    if done < WARM_UP:
        return max(done, 1e-3) / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP)))
