"""What a run tells while it goes on: a line in its log now and then, more often one on screen."""

from __future__ import annotations

import json
import time
from pathlib import Path

from torch import Tensor

LOG_EVERY = 100  # steps
TELL_EVERY = 10  # seconds


class Journal:
    """The log of one run, its lines after step `steps` forgotten, and what is said of it."""

    def __init__(self, log: Path, steps: int) -> None:
        self.log = log
        earlier = log.read_text().splitlines() if steps and log.exists() else []
        kept = [line for line in earlier if json.loads(line)["step"] <= steps]
        log.write_text("".join(f"{line}\n" for line in kept))
        self.told = time.perf_counter()
        if steps:
            print(f"{log.stem}: goes on after step {steps:,}", flush=True)

    def note(self, step: int, loss: Tensor, seconds: float, done: float) -> None:
        """Log and tell, each if it is time; reading the loss makes a GPU wait."""
        if step % LOG_EVERY == 0 or done >= 1:
            row = {"step": step, "loss": round(loss.item(), 4), "seconds": round(seconds, 1)}
            with self.log.open("a") as lines:
                lines.write(json.dumps(row) + "\n")
        if time.perf_counter() - self.told >= TELL_EVERY or done >= 1:
            self.told = time.perf_counter()
            left = seconds * max(1 / done - 1, 0)
            print(
                f"{self.log.stem}: {done:.1%}, step {step:,}, loss {loss.item():.3f}, "
                f"{_span(seconds)} gone, about {_span(left)} left",
                flush=True,
            )


def _span(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
