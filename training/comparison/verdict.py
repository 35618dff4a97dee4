"""How often the verdict without labels agrees with the labels, on streams of which many are harmed.

python -m training.comparison.verdict measure FILE --split dev --tasks image text
python -m training.comparison.verdict judge FILE [FILE ...]
"""

from __future__ import annotations

import argparse
import json
import time
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
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.tangram import CAPTIONS, tangram
from queryshift.lab.datasets.tangram_tasks import TASKS
from queryshift.lab.evaluation.benchmarks import BENCHMARKS, single_shifts
from queryshift.lab.evaluation.stream_evaluation import shifted
from queryshift.lab.evaluation.streams import corruption_of
from queryshift.lab.own_traffic.label_free import Signals, judge, signals_of
from queryshift.lab.own_traffic.replay import Replay, replay
from queryshift.lab.own_traffic.traffic import Traffic
from queryshift.lab.tuning.grid_search import contrast
from queryshift.media.collection import Collection
from queryshift.methods.frozen import Frozen
from queryshift.methods.specs import parse
from queryshift.models import load
from queryshift.retrieval.forward import best_vectors

from .dev_shifts import DEV, dev_shift

QUERIES, ORDINARY, WORLD = 512, 256, 2000
SEVERITY = 3
FEW = 10  # scenes that are asked for again and again
POINT = 1.0  # of recall at 1: less is neither help nor harm
TOO_HIGH = 10  # times the recommended rate
HELPFUL = ("rest", "shot", "tcr")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Case:
    """One stream and the method that is judged on it."""

    task: str
    split: str
    shift: str  # "clean", a corruption, or the number of a development shift
    asked: str  # "once": each scene; "few": ten scenes; "zipf": by a Zipf law
    source: str  # "trained", or "random": the same layers without training
    spec: str
    times_rate: float = 1.0

    @property
    def key(self) -> str:
        """What tells it from the others."""
        return "/".join(str(value) for value in asdict(self).values())


def cases(task: str, split: str) -> Iterator[Case]:
    """Streams of one task: methods that help, and the ways in which adaptation is known to harm."""
    names = [str(number) for number in range(len(DEV[task]))]
    shifts = names if split == "dev" else list(single_shifts(TASKS[task][1]))[::3]
    for shift in (name for name in shifts if name != "backtranslation"):
        for spec in HELPFUL:
            yield Case(task, split, shift, "once", "trained", spec)
            yield Case(task, split, shift, "zipf", "trained", spec)
            yield Case(task, split, shift, "few", "trained", spec)
        yield Case(task, split, shift, "once", "trained", "tent", TOO_HIGH)
        yield Case(task, split, shift, "once", "trained", "rest", TOO_HIGH)
        yield Case(task, split, shift, "few", "trained", "shot", TOO_HIGH)
        yield Case(task, split, shift, "few", "trained", "tent")
    for asked in ("once", "few"):
        for spec in HELPFUL:
            yield Case(task, split, "clean", asked, "trained", spec)
            yield Case(task, split, "clean", asked, "trained", spec, TOO_HIGH)
        yield Case(task, split, "clean", asked, "trained", "tent", TOO_HIGH)
    yield Case(task, split, "clean", "once", "random", "rest")
    yield Case(task, split, shifts[0], "once", "random", "shot")


@cache
def world_of(task: str, split: str) -> Dataset:
    """All scenes of a split."""
    return tangram(task, split, WORLD)


@cache
def encoders_of(task: str, source: str) -> tuple[Encoder, Encoder]:
    """The encoder of the queries, trained or not, and that of the candidates."""
    name, query, gallery = TASKS[task]
    model = load(name)
    if source == "random":
        torch.manual_seed(0)
        for parameter in model[query].parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)
    return model[query].to(DEVICE), model[gallery].to(DEVICE)


@cache
def gallery_of(task: str, split: str) -> Gallery:
    """The candidates, embedded by the trained model."""
    encoder = encoders_of(task, "trained")[1]
    return Gallery.build(encoder, world_of(task, split).candidates, batch_size=500)


def corruption(case: Case) -> Corruption | None:
    """What happens to its queries."""
    if case.shift == "clean":
        return None
    if case.split == "dev":
        return dev_shift(case.task, case.shift)
    if TASKS[case.task][1] in ("image", "text", "video", "audio"):
        return find(TASKS[case.task][1], case.shift)
    return corruption_of(BENCHMARKS[f"tangram-o-{case.task}"], case.shift)


@cache
def asked_for(task: str, split: str, shift: str, asked: str) -> tuple[Dataset, tuple[Any, ...]]:
    """The queries of a stream: which scenes, and each under the shift with a draw of its own."""
    world, rng = world_of(task, split), np.random.default_rng(7)
    order = rng.permutation(WORLD - ORDINARY)  # the last scenes are the ordinary sample's
    law = 1 / np.arange(1, len(order) + 1)
    scenes = {
        "once": order[:QUERIES],
        "few": rng.choice(order[:FEW], QUERIES),
        "zipf": order[rng.choice(len(order), QUERIES, p=law / law.sum())],
    }[asked].tolist()
    some = replace(
        world.asking(scenes), query_ids=[f"{n}/{scene}" for n, scene in enumerate(scenes)]
    )
    if task == "text":
        captions = world_of("image", split).candidates
        texts = [captions[CAPTIONS * s + (s + n) % CAPTIONS] for n, s in enumerate(scenes)]
        some = replace(some, queries=texts)
    case = Case(task, split, shift, asked, "trained", "frozen")
    return some, tuple(shifted(some, corruption(case), SEVERITY))


def traffic_of(case: Case) -> Traffic:
    """The stream as `evaluate` sees a user's."""
    some, queries = asked_for(case.task, case.split, case.shift, case.asked)
    modality = TASKS[case.task][1]
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
    items = list(world_of(case.task, case.split).queries[WORLD - ORDINARY :])
    return Collection(TASKS[case.task][1], list(range(len(items))), items)


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
        "more": {"before": more(traffic, source), "after": more(traffic, adapted)},
    }


def recall(outcome: Replay) -> float:
    """At 1, in percent."""
    return round(100 * outcome.ranks[:, 0].eq(1).double().mean().item(), 2)


def more(traffic: Traffic, outcome: Replay) -> dict[str, float]:
    """Measures that a verdict might use: of the vectors that the queries were searched with."""
    vectors = outcome.vectors.to(traffic.encoder.device)
    hits = traffic.gallery.search(vectors, 10)
    first = best_vectors(vectors, hits.vectors[:, 0].to(vectors.device))
    scale = hits.scores.std().item()
    sure = torch.softmax(hits.scores / max(scale, 1e-6) * 4, dim=1)[:, 0]
    return {
        "nearest": hits.scores[:, 0].mean().item(),
        "margin": (hits.scores[:, 0] - hits.scores[:, 1]).mean().item(),
        "contrast": contrast(vectors, first, hits.scores),
        "sure": sure.mean().item(),
        "spread": (1 - vectors.mean(dim=0).norm()).item(),
    }


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
    rows = [json.loads(text) for path in options.files for text in path.read_text().splitlines()]
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        verdict, _ = judge(Signals(**row["signals"]))
        counts[effect(row), verdict] = counts.get((effect(row), verdict), 0) + 1
    for (what, verdict), count in sorted(counts.items()):
        print(f"{what:8} {verdict:13} {count}")


if __name__ == "__main__":
    main()
