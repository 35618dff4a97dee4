"""Train tangram's models: `python -m training.train scenes|clips|edits`; see adopt for the rest."""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from training import tasks
from training.loop import Plan
from training.stored import MADE_BY, NEW, STORED, use

MATCHING = 0.55  # of the seconds that the towers get, for the head
FEWEST = 64  # things to learn from, however small a share of them is wished
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
    options.logs = options.logs or options.weights / "logs"
    options.logs.mkdir(parents=True, exist_ok=True)
    use(options.weights)
    begun = time.perf_counter()
    count = max(int(FULL[options.task][0] * options.share), FEWEST)
    print(f"{options.task}: drawing {count:,} of them", flush=True)
    data = tasks.world(options.task, count, options.device)
    model = getattr(tasks, options.task)(data, *_plan(options, options.task))
    _store(model, options.task, options.weights)
    if options.task == "scenes":
        head = tasks.matching(model, data, *_plan(options, "matching"))
        _store(head, "matching", options.weights)
    for name in MADE_BY[options.task]:
        (options.logs / f"{name}.part").unlink(missing_ok=True)
    spent = round(time.perf_counter() - begun)
    print(f"{options.task}: stored in {options.weights} after {spent} s", flush=True)


def _plan(options: argparse.Namespace, task: str) -> tuple[Plan, Path]:
    full = FULL[task][1]
    steps = max(int(full.steps * options.share), 2)
    batch = min(full.batch, options.batch or full.batch)
    seconds = options.seconds * (MATCHING if task == "matching" else 1.0)
    plan = Plan(steps, batch, full.lr, full.decay, seconds, full.seed + options.seed)
    told = {name: value for name, value in vars(plan).items() if value != math.inf}
    (options.logs / f"{task}.json").write_text(json.dumps(told) + "\n")
    return plan, options.logs / f"{task}.jsonl"


def _store(model: nn.Module, task: str, folder: Path) -> None:
    """Half precision: 2 bytes a parameter, and recall is measured with what is stored."""
    halves = {key: value.half().contiguous().cpu() for key, value in model.state_dict().items()}
    save_file(halves, folder / STORED[task])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=tuple(MADE_BY))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--share", type=float, default=1.0, help="of the full data and steps")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end the schedule here")
    parser.add_argument("--batch", type=int, help="at most so many at once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", type=Path, default=NEW, help="folder for what is made")
    parser.add_argument("--logs", type=Path, help="folder, else logs in that of the weights")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("stopped: on a CPU the same command goes on where it was") from None
