"""Checkpoints of a training run, so that one that was stopped can resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Checkpoint:
    """All that the next step depends on, in a file that only the same plan resumes from."""

    path: Path
    plan: Mapping[str, Any]
    modules: nn.Module
    optimiser: torch.optim.Optimizer
    chance: torch.Generator

    def write(self, steps: int, seconds: float) -> None:
        state = {
            "plan": dict(self.plan),
            "steps": steps,
            "seconds": seconds,
            "modules": self.modules.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "chance": self.chance.get_state(),
        }
        beside = self.path.with_suffix(".writing")
        torch.save(state, beside)
        beside.replace(self.path)

    def resume(self) -> tuple[int, float]:
        """Load the state; the steps and seconds done, 0 without a checkpoint of the same plan."""
        if not self.path.exists():
            return 0, 0.0
        state = torch.load(self.path, map_location=self.chance.device, weights_only=True)
        if state["plan"] != self.plan:
            return 0, 0.0
        rates = [group["lr"] for group in self.optimiser.param_groups]
        self.modules.load_state_dict(state["modules"])
        self.optimiser.load_state_dict(state["optimiser"])
        for group, rate in zip(self.optimiser.param_groups, rates, strict=True):
            group["lr"] = rate  # the tensor that the schedule writes to
        self.chance.set_state(state["chance"].cpu())
        return state["steps"], state["seconds"]
