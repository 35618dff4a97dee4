"""The one training loop: AdamW, a warm-up, a cosine to zero, bfloat16 where a GPU is."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

WARM_UP = 0.05
LOG_EVERY = 100


@dataclass(frozen=True)
class Plan:
    """How long and how fast; the schedule ends at `steps` or at `seconds`, whichever is first."""

    steps: int
    batch: int
    lr: float = 1e-3
    decay: float = 0.05
    seconds: float = math.inf
    seed: int = 0


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
    """Take steps down `loss`, which draws its own batch from the generator it is given."""
    device = next(modules.parameters()).device
    chance = torch.Generator(device).manual_seed(plan.seed)
    lr = torch.tensor(plan.lr * _rate(0), device=device)
    modules.train()
    step = _step(modules, loss, chance, _optimiser(modules, lr, plan.decay))
    step = _captured(step, chance) if device.type == "cuda" else step
    begun, steps, done = time.perf_counter(), 0, 0.0
    with log.open("w") as lines:
        while done < 1:
            lr.fill_(plan.lr * _rate(done))
            value = step()
            steps += 1
            if steps % LOG_EVERY == 0 or steps == plan.steps:
                _note(lines, steps, value.item(), begun)
            done = max(steps / plan.steps, (time.perf_counter() - begun) / plan.seconds)
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


def _note(lines, step: int, loss: float, begun: float) -> None:
    row = {"step": step, "loss": round(loss, 4), "seconds": round(time.perf_counter() - begun, 1)}
    lines.write(json.dumps(row) + "\n")
    lines.flush()
