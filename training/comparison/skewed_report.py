"""The tables of docs/results/skew.md: SHOT against REST by share of scenes, and REST's rates.

python -m training.comparison.skewed_report docs/results/skew.jsonl.gz
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from queryshift.lab.evaluation.significance import draw_seeds, p_values, resampled_means

from .skewed import COMPARED, QUERIES, RATES, SCENES, SHIFTS

Line = dict[str, Any]
DRAWS = 5000
TASK_NAMES = {
    "text": "text to image",
    "image": "image to text",
    "audio": "audio to video",
    "video": "video to audio",
}
DEV_NAMES = {
    "clean": "clean",
    "0": "keyboard",
    "1": "stutter",
    "2": "no vowels",
    "mixed": "one of the three for each",
}


def groups(lines: Iterable[Line], key: Callable[[Line], Any]) -> dict[Any, list[Line]]:
    found: dict[Any, list[Line]] = defaultdict(list)
    for line in lines:
        found[key(line)].append(line)
    return found


def right(line: Line) -> np.ndarray:
    """100 where a query's first answer was right, else 0."""
    packed = np.frombuffer(base64.b64decode(line["hits"]), np.uint8)
    return 100.0 * np.unpackbits(packed)[:QUERIES]


def recall(lines: list[Line]) -> str:
    return f"{np.mean([right(line) for line in lines]):.1f}"


def by_scene(lines: list[Line]) -> np.ndarray:
    """Recall (seeds, scenes), the mean over shifts and over the turns of a scene."""
    seeds = sorted(groups(lines, lambda line: line["seed"]).items())
    each = np.stack([np.mean([right(line) for line in some], axis=0) for _, some in seeds])
    return each.reshape(len(seeds), -1, lines[0]["scenes"]).mean(axis=1)


def resampled(scores: np.ndarray) -> np.ndarray:
    """Means of scores (seeds, scenes), seeds and scenes drawn anew."""
    rng = np.random.default_rng(0)
    return resampled_means(scores, draw_seeds(len(scores), DRAWS, rng), rng)


def with_interval(points: float, draws: np.ndarray) -> str:
    low, high = np.percentile(draws, (2.5, 97.5))
    p = float(p_values(draws))
    chance = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    return f"{points:+.1f} ({low:+.1f} to {high:+.1f}, {chance})"


def table(rows: list[list[str]], head: list[str]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def share(scenes: int) -> str:
    return f"{100 * scenes / QUERIES:g} %"


def by_share(lines: list[Line]) -> list[list[str]]:
    """One row per share of the scenes, the whole gallery first."""
    rows: list[list[str]] = []
    whole: tuple[float, np.ndarray] | None = None
    for scenes, some in sorted(groups(lines, lambda line: line["scenes"]).items(), reverse=True):
        of = groups(some, lambda line: line["method"])
        ahead = by_scene(of["shot"]) - by_scene(of["rest"])
        points, draws = float(ahead.mean()), resampled(ahead)
        whole = whole or (points, draws)
        change = "" if scenes == QUERIES else with_interval(points - whole[0], draws - whole[1])
        means = [recall(of[method]) for method in COMPARED]
        rows.append([share(scenes), *means, with_interval(points, draws), change])
    return rows


def skew_table(lines: list[Line]) -> str:
    of = groups(lines, lambda line: line["task"])
    rows = [[TASK_NAMES[task], *row] for task in SHIFTS for row in by_share(of[task])]
    return table(rows, ["task", "asked for", *COMPARED, "SHOT - REST", "change from 100 %"])


def stream_table(lines: list[Line]) -> str:
    """Every stream that went through every method, by itself."""
    key = lambda line: (line["task"], line["shift"], line["seed"], -line["scenes"])  # noqa: E731
    rows = []
    for (task, shift, seed, _), some in sorted(groups(lines, key).items()):
        of = groups(some, lambda line: line["method"])
        if len(of) < len(COMPARED):
            continue
        means = [recall(of[method]) for method in COMPARED]
        rows.append([TASK_NAMES[task], shift, str(seed), share(some[0]["scenes"]), *means])
    return table(rows, ["task", "shift", "seed", "asked for", *COMPARED])


def rate_table(lines: list[Line]) -> str:
    """One row per learning rate, the source model first, one column per stream."""
    of = groups(lines, lambda line: None if line["method"] == "frozen" else line["lr"])
    source = groups(of[None], lambda line: line["shift"])
    rows = [["frozen", *(recall(source[shift]) for shift in DEV_NAMES), "", ""]]
    for rate in RATES:
        streams = groups(of[rate], lambda line: line["shift"])
        gain = {shift: by_scene(streams[shift]) - by_scene(source[shift]) for shift in DEV_NAMES}
        clean = gain.pop("clean")
        shifted = np.mean(list(gain.values()), axis=0)
        gains = [with_interval(float(one.mean()), resampled(one)) for one in (clean, shifted)]
        rows.append([f"{rate:g}", *(recall(streams[shift]) for shift in DEV_NAMES), *gains])
    return table(rows, ["rate", *DEV_NAMES.values(), "clean against frozen", "shifted, mean of 4"])


def complete(lines: list[Line]) -> list[Line]:
    """Those of tasks and seeds for which every stream went through every method."""
    wanted = {task: len(SCENES) * len(shifts) * len(COMPARED) for task, shifts in SHIFTS.items()}
    of = groups(lines, lambda line: (line["task"], line["seed"]))
    return [line for (task, _), some in of.items() if len(some) == wanted[task] for line in some]


def main() -> None:
    with gzip.open(sys.argv[1], "rt") as file:
        of = groups(map(json.loads, file), lambda line: line["name"])
    print(skew_table(complete(of["skew"])), stream_table(of["skew"]), sep="\n\n", end="\n\n")
    print(rate_table(of["rates"]))


if __name__ == "__main__":
    main()
