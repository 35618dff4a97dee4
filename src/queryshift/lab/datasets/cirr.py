"""CIRR (Liu et al., 2021): a photo, and how another differs from it; and its server's files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile, BadInput, check_known
from queryshift.media.lazy_items import Composed, ImageFile, LazyItems

from .dataset import Dataset
from .reading import reader

VERSION = "rc2"
SOFT = "val-soft"
METRICS = {"recall": 50, "recall_subset": 3}
"""Metric of the server to the number of candidates it takes for each query."""

FIELDS = {
    "pairid": reader.NUMBER_OR_TEXT,
    "reference": reader.TEXT,
    "caption": reader.TEXT,
    "img_set": reader.Kind(
        'a set with its "members"',
        lambda value: isinstance(value, dict) and reader.TEXTS.fits(value.get("members")),
    ),
}

Record = dict[str, Any]


def read(name: str, root: Path, part: str, query: str) -> Dataset:
    """The queries of a split, each without its own image among the answers.

    The one right answer is `target_hard`, as in all published recalls; in "val-soft" the plausible
    ones of `target_soft` are right too. The answers of the test split are with the server alone,
    so its queries match nothing here.
    """
    split = "val" if part == SOFT else part
    images = _images(root, split)
    path = reader.find_file(root, f"captions/cap.{VERSION}.{split}.json")
    listed = reader.records(path, reader.read_json(path), **FIELDS)
    places = {name: place for place, name in enumerate(images)}
    usable, flawed = reader.parted(listed, lambda record: _flaw(record, places))
    right = _soft_targets if part == SOFT else _hard_target
    return Dataset(
        f"{name}-{part}",
        query,
        "image",
        queries=LazyItems(
            [Composed(images[each["reference"]], each["caption"].strip()) for each in usable]
        ),
        query_ids=[str(each["pairid"]) for each in usable],
        candidates=LazyItems(list(images.values())),
        matches=[right(each, places) for each in usable],
        candidate_ids=list(images),
        exclude=[(places[each["reference"]],) for each in usable],
        subsets=[_subset(each, places) for each in usable],
        counts={
            "images": len(images),
            "captions": len(listed),
            "pairs": sum("target_hard" in each for each in usable),
        },
        left_out=[f"pair {each['pairid']} {flaw}" for each, flaw in flawed],
    )


def submission(
    dataset: Dataset, rankings: Sequence[Sequence[int]], metric: str
) -> dict[str, str | list[str]]:
    """The JSON that the server accepts for one metric, from positions of candidates, best first.

    For "recall" 50 positions a query are enough, with one more for the query's own image; for
    "recall_subset" a ranking must hold the query's subset, as a whole ranking does.
    """
    check_known("metric of the CIRR server", metric, METRICS)
    if len(rankings) != len(dataset):
        raise BadInput(
            f"got rankings for {len(rankings)} of {len(dataset)} queries: give one each."
        )
    answers: dict[str, str | list[str]] = {"version": VERSION, "metric": metric}
    for row, pair in enumerate(dataset.query_ids):
        allowed = _allowed(dataset, row, metric)
        best = [place for place in rankings[row] if place in allowed][: METRICS[metric]]
        if len(best) < min(METRICS[metric], len(allowed)):
            raise BadInput(
                f"the ranking of pair {pair} holds {len(best)} candidates that count for {metric}, "
                f"expected {METRICS[metric]}: rank more candidates."
            )
        answers[pair] = [dataset.candidate_ids[place] for place in best]
    return answers


def write_submissions(
    dataset: Dataset, rankings: Sequence[Sequence[int]], folder: str | Path
) -> list[Path]:
    """Write the two files the server takes, from whole rankings; their paths."""
    submissions = {metric: submission(dataset, rankings, metric) for metric in METRICS}
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = []
    for metric, answers in submissions.items():
        paths.append(Path(folder) / f"{dataset.name}-{metric}.json")
        paths[-1].write_text(json.dumps(answers))
    return paths


def _allowed(dataset: Dataset, row: int, metric: str) -> set[int]:
    counted = range(len(dataset.candidates)) if metric == "recall" else dataset.subsets[row]
    return set(counted) - set(dataset.exclude[row])


def _images(root: Path, split: str) -> dict[str, ImageFile]:
    path = reader.find_file(root, f"image_splits/split.{VERSION}.{split}.json")
    files = reader.read_json(path)
    if not isinstance(files, dict) or not reader.TEXTS.fits(list(files.values())):
        raise BadFile(f'"{path}" holds no names with a file each: is it another file?')
    folder = reader.find_folder(root, "img_raw", "")
    return {name: ImageFile(folder / place) for name, place in files.items()}


def _flaw(record: Record, places: Mapping[str, int]) -> str | None:
    """Why a record cannot be used, as the end of a sentence; None if it can."""
    for role in ("reference", "target_hard"):
        if role in record and record[role] not in places:
            return f'has the {role} "{record[role]}", which is not in the split.'
    return None if record["caption"].strip() else "has no words."


def _hard_target(record: Record, places: Mapping[str, int]) -> list[int]:
    return [places[record["target_hard"]]] if "target_hard" in record else []


def _soft_targets(record: Record, places: Mapping[str, int]) -> list[int]:
    """The hard target and others of positive weight (1.0 or 0.5; -1.0 means not a target).

    The file leaves some hard targets out, and has some references in.
    """
    weights = {record["target_hard"]: 1.0, **record.get("target_soft", {})}
    names = [name for name, weight in weights.items() if weight > 0 and name in places]
    return [places[name] for name in names if name != record["reference"]]


def _subset(record: Record, places: Mapping[str, int]) -> list[int]:
    """The similar images the query is also ranked in, without its own."""
    members = record["img_set"]["members"]
    return [places[name] for name in members if name in places and name != record["reference"]]
