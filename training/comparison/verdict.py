"""How often the verdict without labels agrees with the labels, on streams of which many are harmed.

python -m training.comparison.verdict measure FILE --split dev --tasks image text
python -m training.comparison.verdict judge docs/results/verdict.jsonl.gz --split test
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from queryshift import Gallery
from queryshift.encoders.encoder import Encoder
from queryshift.lab.corruptions import Corruption, find
from queryshift.lab.datasets import DATASETS, Dataset
from queryshift.lab.datasets.tangram import CAPTIONS, tangram
from queryshift.lab.datasets.tangram_tasks import TASKS
from queryshift.lab.evaluation.benchmarks import BENCHMARKS, single_shifts
from queryshift.lab.evaluation.stream_evaluation import shifted
from queryshift.lab.evaluation.streams import corruption_of
from queryshift.lab.own_traffic.label_free import Signals, judge, signals_of
from queryshift.lab.own_traffic.replay import Replay, replay
from queryshift.lab.own_traffic.traffic import Traffic
from queryshift.media.collection import Collection
from queryshift.methods.frozen import Frozen
from queryshift.methods.specs import parse
from queryshift.models import load

from .dev_shifts import DEV, dev_shift

QUERIES, ORDINARY = 512, 200
SEVERITY = 3
FEW = 10  # scenes that are asked for again and again
POINT = 1.0  # of recall at 1: less is neither help nor harm
HELPFUL = ("rest", "shot", "tcr")
PHOTOGRAPHS = {"photo-image": "image", "photo-text": "text"}  # Flickr8k, by what is asked with
PHOTO_SHIFTS = {
    "image": ("gaussian_noise", "motion_blur", "fog", "jpeg"),
    "text": ("ocr", "character_swap", "synonym_replacement", "word_deletion"),
}
VERDICTS = ("adapt", "do not adapt", "cannot tell")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Case:
    """One stream and the method that is judged on it."""

    task: str  # of tangram, or of the photographs
    split: str
    shift: str  # "clean", a corruption, or the number of a development shift
    asked: str  # "once": each scene; "few": ten scenes; "zipf": by a Zipf law
    source: str  # "trained", or "random": the same layers without training
    spec: str
    times_rate: float = 1.0  # of the recommended learning rate

    @property
    def key(self) -> str:
        """What tells it from the others."""
        return "/".join(str(value) for value in asdict(self).values())


def cases(task: str, split: str) -> Iterator[Case]:
    """Streams of one task: methods that help, and the ways in which adaptation is known to harm."""
    for shift in shifts_of(task, split):
        for spec in HELPFUL:
            yield Case(task, split, shift, "once", "trained", spec)
        yield Case(task, split, shift, "zipf", "trained", "rest")
        yield Case(task, split, shift, "few", "trained", "rest")
        yield Case(task, split, shift, "few", "trained", "shot", 10)
        yield Case(task, split, shift, "few", "trained", "tent", 10)
        yield Case(task, split, shift, "once", "trained", "tent", 30)
        yield Case(task, split, shift, "once", "trained", "rest", 100)
    for asked in ("once", "few"):
        for spec in (*HELPFUL, "tent"):
            for times in (1, 10, 30):
                yield Case(task, split, "clean", asked, "trained", spec, times)
    yield Case(task, split, "clean", "once", "random", "rest")
    yield Case(task, split, shifts_of(task, split)[0], "once", "random", "shot")


def shifts_of(task: str, split: str) -> Sequence[str]:
    """The shifts of a task's streams; those of the development world are none of the others."""
    if task in PHOTOGRAPHS:
        return PHOTO_SHIFTS[PHOTOGRAPHS[task]]
    if split == "dev":
        return [str(number) for number in range(len(DEV[task]))]
    named = [name for name in single_shifts(TASKS[task][1]) if name != "backtranslation"]
    return named[::3]


def asks_with(task: str) -> str:
    """The modality of a task's queries."""
    return PHOTOGRAPHS[task] if task in PHOTOGRAPHS else TASKS[task][1]


@cache
def world_of(task: str, split: str) -> Dataset:
    """All queries and candidates of a split."""
    if task in PHOTOGRAPHS:
        root = os.environ["QUERYSHIFT_FLICKR8K"]
        return DATASETS["flickr8k"](root, asks_with(task), {"dev": "val"}.get(split, split))
    return tangram(task, split, 2000)


def scenes_in(task: str, split: str) -> int:
    """How many scenes there are to ask for; of photographs, a caption each time."""
    count = len(world_of(task, split))
    return count // CAPTIONS if task == "photo-text" else count


@cache
def encoders_of(task: str, source: str) -> tuple[Encoder, Encoder]:
    """The encoder of the queries, trained or not, and that of the candidates."""
    photographs = task in PHOTOGRAPHS
    name = "training.photographs.encoders:make" if photographs else TASKS[task][0]
    gallery = {"image": "text", "text": "image"}[asks_with(task)] if photographs else TASKS[task][2]
    model = load(name)
    if source == "random":
        torch.manual_seed(0)
        for parameter in model[asks_with(task)].parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)
    return model[asks_with(task)].to(DEVICE), model[gallery].to(DEVICE)


@cache
def gallery_of(task: str, split: str) -> Gallery:
    """The candidates, embedded by the trained model."""
    encoder = encoders_of(task, "trained")[1]
    return Gallery.build(encoder, world_of(task, split).candidates, batch_size=250)


def corruption(task: str, split: str, shift: str) -> Corruption | None:
    """What happens to the queries."""
    if shift == "clean":
        return None
    if task in PHOTOGRAPHS:
        return find(asks_with(task), shift)
    if split == "dev":
        return dev_shift(task, shift)
    return corruption_of(BENCHMARKS[f"tangram-o-{task}"], shift)


@cache
def asked_for(task: str, split: str, shift: str, asked: str) -> tuple[Dataset, tuple[Any, ...]]:
    """The queries of a stream: which scenes, and each under the shift with a draw of its own."""
    world, rng = world_of(task, split), np.random.default_rng(7)
    order = rng.permutation(scenes_in(task, split) - ORDINARY)  # the last are the sample's
    law = 1 / np.arange(1, len(order) + 1)
    scenes = {
        "once": order[:QUERIES],
        "few": rng.choice(order[:FEW], QUERIES),
        "zipf": order[rng.choice(len(order), QUERIES, p=law / law.sum())],
    }[asked].tolist()
    captions = [CAPTIONS * scene + (scene + turn) % CAPTIONS for turn, scene in enumerate(scenes)]
    some = world.asking(captions if task == "photo-text" else scenes)
    if task == "text":
        texts = world_of("image", split).candidates
        some = replace(some, queries=[texts[place] for place in captions])
    some = replace(some, query_ids=[f"{turn}/{scene}" for turn, scene in enumerate(scenes)])
    return some, tuple(shifted(some, corruption(task, split, shift), SEVERITY))


def traffic_of(case: Case) -> Traffic:
    """The stream as `evaluate` sees a user's."""
    some, queries = asked_for(case.task, case.split, case.shift, case.asked)
    modality = asks_with(case.task)
    gallery = gallery_of(case.task, case.split)
    return Traffic(
        model=case.source,
        encoder=encoders_of(case.task, case.source)[0],
        gallery=gallery,
        queries=Collection(modality, list(some.query_ids), list(queries)),
        candidates=Collection("item", list(range(len(gallery))), list(range(len(gallery)))),
        matches=[list(right) for right in some.matches],
        shift=None,
        seed=0,
    )


def ordinary_of(case: Case) -> Collection:
    """Clean queries for scenes that the stream does not ask for."""
    world, count = world_of(case.task, case.split), scenes_in(case.task, case.split)
    places = range(count - ORDINARY, count)
    some = world.asking([CAPTIONS * p for p in places] if case.task == "photo-text" else places)
    return Collection(asks_with(case.task), list(places), list(some.queries))


def line(case: Case) -> dict[str, Any]:
    """What the labels say and what can be measured without them."""
    traffic, batch = traffic_of(case), 32 if case.task == "composed" else 64
    method = parse(case.spec).resolved(traffic.encoder)
    method = replace(method, lr=case.times_rate * method.lr)
    source, adapted = replay(traffic, Frozen(), batch), replay(traffic, method, batch)
    signals = signals_of(traffic, method, ordinary_of(case), source, adapted, batch)
    return {
        "key": case.key,
        **asdict(case),
        "frozen": recall(source),
        "adapted": recall(adapted),
        "signals": asdict(signals),
    }


def recall(outcome: Replay) -> float:
    """At 1, in percent."""
    return round(100 * outcome.ranks[:, 0].eq(1).double().mean().item(), 2)


def measured(path: Path, tasks: Sequence[str], split: str, minutes: float) -> None:
    """Append every case that the file does not have yet."""
    torch.set_num_threads(1)
    path.touch()
    done = {json.loads(text)["key"] for text in path.read_text().splitlines()}
    deadline = time.monotonic() + 60 * minutes
    with path.open("a") as file:
        for task in tasks:
            for case in cases(task, split):
                if time.monotonic() > deadline:
                    return
                if case.key not in done:
                    file.write(json.dumps(line(case)) + "\n")
                    file.flush()


def effect(row: dict[str, Any]) -> str:
    """What the labels say: helped or harmed by more than a point, or neither."""
    gain = row["adapted"] - row["frozen"]
    return "helped" if gain > POINT else "harmed" if gain < -POINT else "neither"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure", "judge"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    if options.what == "measure":
        measured(options.files[0], options.tasks, options.split, options.minutes)
        return
    rows = [row for path in options.files for row in kept(path)]
    for world in ("tangram", "photographs"):
        some = [row for row in rows if (row["task"] in PHOTOGRAPHS) == (world == "photographs")]
        if chosen := [row for row in some if row["split"] == options.split]:
            print(f"{world}, {options.split}, {len(chosen)} streams\n")
            print("\n".join(agreement(chosen)), end="\n\n")


def kept(path: Path) -> list[dict[str, Any]]:
    """The lines of a file."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.decode().splitlines()]


def agreement(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A table of what the labels say against the verdict, and the shares that matter."""
    counts = Counter((effect(row), judge(Signals(**row["signals"]))[0]) for row in rows)
    lines = ["| by the labels | adapt | do not adapt | cannot tell |", "|---|--:|--:|--:|"]
    for what in ("helped", "harmed", "neither"):
        told = " | ".join(str(counts[what, verdict]) for verdict in VERDICTS)
        lines.append(f"| {what} | {told} |")
    right = [
        counts[what, verdict] / max(1, counts[what, "adapt"] + counts[what, "do not adapt"])
        for what, verdict in (("helped", "adapt"), ("harmed", "do not adapt"))
    ]
    decided = [row for row in rows if effect(row) != "neither"]
    unsure = sum(counts[what, "cannot tell"] for what in ("helped", "harmed")) / len(decided)
    harmed = sum(effect(row) == "harmed" for row in rows)
    false = counts["harmed", "adapt"] / max(1, harmed)
    neither = counts["neither", "adapt"] / max(1, len(rows) - len(decided))
    return [
        *lines,
        f"balanced accuracy {100 * sum(right) / 2:.1f} %, false adapt {100 * false:.1f} % of "
        f"harmed and {100 * neither:.1f} % of neither, cannot tell {100 * unsure:.1f} %",
    ]


if __name__ == "__main__":
    main()
