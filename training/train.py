"""Train tangram's models and store them: `python -m training.train scenes|clips|edits`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from queryshift.models.tangram import WEIGHTS
from training import tasks
from training.loop import Plan

MATCHING = 0.55  # of the seconds that the towers get, for the head
LOGS = Path(__file__).parent / "logs"
STORED = {
    "scenes": "tangram.safetensors",
    "matching": "tangram-matching.safetensors",
    "clips": "tangram-clips.safetensors",
    "edits": "tangram-edits.safetensors",
}
# Scenes to draw, and the schedule; the matching head learns on the scenes of its towers.
FULL = {
    "scenes": (320_000, Plan(steps=10_600, batch=1024)),
    "matching": (0, Plan(steps=6_500, batch=384, seed=1)),
    "clips": (80_000, Plan(steps=2_100, batch=768)),
    "edits": (160_000, Plan(steps=2_200, batch=1024)),
}


def main() -> None:
    options = _options()
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    for folder in (options.weights, options.logs):
        folder.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    count = int(FULL[options.task][0] * options.share)
    data = tasks.world(options.task, count, options.device)
    print(options.task, "world drawn", round(time.perf_counter() - begun), "s", flush=True)
    model = getattr(tasks, options.task)(data, *_plan(options, options.task))
    _store(model, options.task, options.weights)
    if options.task == "scenes":
        head = tasks.matching(model, data, *_plan(options, "matching"))
        _store(head, "matching", options.weights)
    print(options.task, "done", round(time.perf_counter() - begun), "s", flush=True)


def _plan(options: argparse.Namespace, task: str) -> tuple[Plan, Path]:
    full = FULL[task][1]
    steps = max(int(full.steps * options.share), 2)
    batch = min(full.batch, options.batch or full.batch)
    seconds = options.seconds * (MATCHING if task == "matching" else 1.0)
    plan = Plan(steps, batch, full.lr, full.decay, seconds, full.seed + options.seed)
    (options.logs / f"{task}.json").write_text(json.dumps(vars(plan)) + "\n")
    return plan, options.logs / f"{task}.jsonl"


def _store(model: nn.Module, task: str, folder: Path) -> None:
    """Half precision: 2 bytes a parameter, and recall is measured with what is stored."""
    halves = {key: value.half().contiguous().cpu() for key, value in model.state_dict().items()}
    save_file(halves, folder / STORED[task])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("scenes", "clips", "edits"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--share", type=float, default=1.0, help="of the full data and steps")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end the schedule here")
    parser.add_argument("--batch", type=int, help="at most so many at once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--logs", type=Path, default=LOGS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
