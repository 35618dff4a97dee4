"""The streams of the comparison on a world that nobody has looked at before."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np

from queryshift.lab.corruptions import Corruption, corrupt
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.tangram import CAPTIONS, TASKS
from queryshift.lab.evaluation import corrupted_queries
from queryshift.lab.evaluation.benchmarks import AS_IT_IS, BENCHMARKS

from .dev_shifts import dev_shift

QUERIES, SCENES, FEW = 1000, 2000, 20
DEVELOPMENT = "dev:"  # begins the names of shifts by which choices are made
ALONE, AMONG, AFTER = 250, 500, 500  # queries of hostile streams: nothing else, half of them, none
SEVERITIES = (3, 5)
POPULAR = {  # shifts under which scenes are asked for by a Zipf law; the first also for mixtures
    "image": ("gaussian_noise", "motion_blur", "contrast"),
    "text": ("ocr", "character_swap", "synonym_replacement"),
    "video": ("gaussian_noise", "motion_blur", "pixelate"),
    "audio": ("gaussian_noise", "rain", "wind"),
    "composed": ("noise+character", "blur+word", "digital+sentence"),
}
Asked = tuple[list[Any], list[list[int]]]
Row = tuple[int, int, str | None]  # scene (-1: noise), how often it came before, and its shift


@dataclass(frozen=True)
class Stream:
    """Which queries come, in which order."""

    kind: str
    task: str
    shift: str
    severity: int
    seed: int

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Stream:
        """The stream of a line of results."""
        return cls(*(line[field.name] for field in fields(cls)))


def streams(seed: int) -> Iterator[Stream]:
    """All streams of one seed."""
    for task in TASKS:
        first = POPULAR[task][0]
        for shift, severity in product(shifts_of(task), SEVERITIES):
            yield Stream("online", task, shift, severity, seed)
        for severity in SEVERITIES:
            yield Stream("diverse", task, "diverse", severity, seed)
        for shift, severity in product(POPULAR[task], SEVERITIES):
            yield Stream("zipf", task, shift, severity, seed)
        for kind in ("few", "half", "tenth", "sorted"):
            yield Stream(kind, task, first, 3, seed)
        for kind in ("clean", "clean zipf", "repeated", "noise"):
            yield Stream(kind, task, "clean", 3, seed)


def shifts_of(task: str) -> list[str]:
    """A task's shifts, except those that need a translation model."""
    row = BENCHMARKS[f"tangram-o-{task}"]
    return [shift for shift in row.shifts if not corrupted_queries.needs_translator(row, shift)]


def corruption_of(stream: Stream) -> Corruption | None:
    """The corruption of a stream's shifted queries; None for clean streams."""
    if stream.shift == "clean":
        return None
    if stream.shift.startswith(DEVELOPMENT):
        return dev_shift(stream.task, stream.shift.removeprefix(DEVELOPMENT))
    row, shift = ("d", AS_IT_IS) if stream.shift == "diverse" else ("o", stream.shift)
    return corrupted_queries.corruption_of(BENCHMARKS[f"tangram-{row}-{stream.task}"], shift)


def rows(stream: Stream) -> list[Row]:
    """Scenes in the order in which they are asked for."""
    name = f"{stream.kind}/{stream.task}/{stream.shift}".encode()
    rng = np.random.default_rng((stream.seed, zlib.crc32(name)))
    order = rng.permutation(SCENES)
    once = [(int(scene), 0, stream.shift) for scene in order[:QUERIES]]
    clean: list[Row] = [(int(scene), 0, None) for scene in order]
    match stream.kind:
        case "zipf" | "clean zipf":
            weights = 1 / np.arange(1, SCENES + 1)
            return _turns(order[rng.choice(SCENES, QUERIES, p=weights / weights.sum())], stream)
        case "few":
            return _turns(rng.choice(order[:FEW], QUERIES), stream)
        case "half" | "tenth":
            share = 0.5 if stream.kind == "half" else 0.1
            shifted = rng.random(QUERIES) < share
            return [once[row] if shifted[row] else clean[row] for row in range(QUERIES)]
        case "clean":
            return clean[:QUERIES]
        case "repeated":
            return _among(clean[:1] * (ALONE + AMONG), clean[1:], rng)
        case "noise":
            noise: list[Row] = [(-1, turn, None) for turn in range(ALONE + AMONG)]
            return _among(noise, clean[1:], rng)
        case "sorted":
            return once + clean[QUERIES : QUERIES + AFTER]
        case _:
            return once


def phases(stream: Stream) -> list[str]:
    """What each query of the stream is counted as; most streams have one phase, without a name."""
    asked = rows(stream)
    match stream.kind:
        case "sorted":
            return [""] * QUERIES + ["after"] * AFTER
        case "repeated" | "noise":
            told = ["itself" if row == asked[0] else "during" for row in asked[: ALONE + AMONG]]
            return told + ["after"] * AFTER
        case _:
            return [""] * len(asked)


def _among(hostile: list[Row], clean: list[Row], rng: np.random.Generator) -> list[Row]:
    """Hostile queries alone, then in the place of half of the clean ones, then clean ones."""
    turned = rng.permutation(AMONG) < AMONG // 2
    mixed = [hostile[-1 - row] if turned[row] else clean[row] for row in range(AMONG)]
    return hostile[:ALONE] + mixed + clean[AMONG : AMONG + AFTER]


def items(stream: Stream, world: Dataset, captions: Sequence[Any]) -> Asked:
    """The queries, and the right answers to each; noise has none.

    A scene that comes again is told by another of its five captions where text is asked with.
    """
    shift = corruption_of(stream)
    rng = np.random.default_rng(stream.seed)
    asked, right = [], []
    for scene, turn, shifted in rows(stream):
        if scene < 0:
            asked.append(_noise(world.queries[turn % 50], rng))
            right.append([])
            continue
        item = world.queries[scene]
        if stream.task == "text" and turn:
            item = captions[CAPTIONS * scene + (scene + turn) % CAPTIONS]
        if shifted is not None and shift is not None:
            name = f"{scene}/{turn}"
            item = corrupt(item, shift, stream.severity, seed=stream.seed, item_id=name)
        asked.append(item)
        right.append(list(world.matches[scene]))
    return asked, right


def _turns(scenes: np.ndarray, stream: Stream) -> list[Row]:
    """Scenes with how often each came before: every time it is corrupted anew."""
    before: dict[int, int] = {}
    found: list[Row] = []
    for scene in scenes.tolist():
        before[scene] = before.get(scene, -1) + 1
        found.append((scene, before[scene], None if stream.shift == "clean" else stream.shift))
    return found


def _noise(like: Any, rng: np.random.Generator) -> Any:
    """Nothing but noise, of the shape of a query."""
    if isinstance(like, tuple):
        return tuple(_noise(part, rng) for part in like)
    if isinstance(like, str):
        return "".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz "), len(like)))
    if np.asarray(like).dtype == np.float32:
        return rng.normal(0, 0.1, np.asarray(like).shape).astype(np.float32)
    return rng.integers(0, 256, np.asarray(like).shape, dtype=np.uint8)
