"""The embedded world as a dataset: five ways to ask, nothing on disk."""

from __future__ import annotations

from collections.abc import Callable

from queryshift.errors import BadInput, unknown
from queryshift.lab.tangram import (
    Scene,
    candidates,
    captions,
    clips,
    crayon_scenes,
    edits,
    product_scenes,
    scenes,
)

from .dataset import Dataset
from .tangram_tasks import COMPOSED, SENTENCE, TASKS

LOOKS: dict[str, Callable[[str, int], list[Scene]]] = {
    "plain": scenes,
    "crayon": lambda split, count: crayon_scenes(count, split=split),
    "products": lambda split, count: product_scenes(count, split=split),
}
LOOKED_AT = ("image", "text")
"""The tasks that there are in every look; clips and edits there are in the plain one only."""

CAPTIONS = 5


def tangram(task: str, split: str = "test", count: int = 2000, look: str = "plain") -> Dataset:
    """`count` queries of one task, against 2,000 images, 10,000 captions, or as many clips.

    A test set is whole whatever `count` is: fewer queries are asked of the same candidates.
    """
    if task not in TASKS | SENTENCE:
        raise unknown("tangram task", task, TASKS | SENTENCE)
    if look not in LOOKS:
        raise unknown("look", look, LOOKS)
    if look != "plain" and task not in LOOKED_AT:
        raise BadInput(
            f'there are no {task} queries in the look "{look}": expected look="plain", '
            f"or one of the tasks {', '.join(LOOKED_AT)}."
        )
    if count < 1:
        raise BadInput(f"got a count of {count} queries, expected at least 1.")
    make = _MAKERS.get(task, _clip)
    whole = make(task, split, max(count, 2000), look)
    return Dataset(
        name=f"tangram-{task}",
        query=whole.query,
        gallery=whole.gallery,
        queries=whole.queries[:count],
        query_ids=whole.query_ids[:count],
        candidates=whole.candidates,
        matches=whole.matches[:count],
    )


def _scenes(split: str, count: int, look: str) -> tuple[list[object], list[str]]:
    """Images, and the five captions of each in a row."""
    shown = LOOKS[look](split, count)
    return [scene.image() for scene in shown], [text for scene in shown for text in captions(scene)]


def _image(task: str, split: str, count: int, look: str) -> Dataset:
    images, texts = _scenes(split, count, look)
    matches = [range(CAPTIONS * row, CAPTIONS * (row + 1)) for row in range(count)]
    return Dataset(task, "image", "text", images, _ids(count), texts, matches)


def _text(task: str, split: str, count: int, look: str) -> Dataset:
    """One caption of each scene, every one of the five places as often."""
    images, texts = _scenes(split, count, look)
    queries = [texts[CAPTIONS * row + row % CAPTIONS] for row in range(count)]
    return Dataset(task, "text", "image", queries, _ids(count), images, _own(count))


def _clip(task: str, split: str, count: int, look: str) -> Dataset:
    shown = clips(split, count)
    seen, heard = [clip.frames() for clip in shown], [clip.waveform() for clip in shown]
    sides = (seen, heard) if task == "video" else (heard, seen)
    _, query, gallery = TASKS[task]
    return Dataset(task, query, gallery, sides[0], _ids(count), sides[1], _own(count))


def _composed(task: str, split: str, count: int, look: str) -> Dataset:
    changes = edits(split, count)
    images = [scene.image() for scene in candidates(changes)]
    queries = [edit.query() for edit in changes]
    return Dataset(task, COMPOSED, "image", queries, _ids(count), images, _own(count))


def _sentence(task: str, split: str, count: int, look: str) -> Dataset:
    """One caption of each scene asks for the other four."""
    texts = [captions(scene) for scene in LOOKS[look](split, count)]
    queries = [own[row % CAPTIONS] for row, own in enumerate(texts)]
    others = [
        text for row, own in enumerate(texts) for k, text in enumerate(own) if k != row % CAPTIONS
    ]
    rest = CAPTIONS - 1
    matches = [range(rest * row, rest * (row + 1)) for row in range(count)]
    return Dataset(task, "text", "text", queries, _ids(count), others, matches)


_MAKERS = {"image": _image, "text": _text, "composed": _composed, "sentence": _sentence}


def _ids(count: int) -> list[str]:
    return [str(row) for row in range(count)]


def _own(count: int) -> list[tuple[int]]:
    return [(row,) for row in range(count)]
