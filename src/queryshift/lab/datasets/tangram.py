"""The embedded world as a dataset: six tasks, nothing on disk.

Importing this file loads nothing that makes the world: benchmarks need the names of its tasks only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from queryshift.errors import BadInput, check_known

from .dataset import Dataset

if TYPE_CHECKING:
    from queryshift.lab.tangram import Scene

Items = Sequence[Any]
COMPOSED = "image+text"
"""The modality of a query that is an image and words on how to change it."""

TASKS = {
    "image": ("tangram", "image", "text"),
    "text": ("tangram", "text", "image"),
    "video": ("tangram-clips", "video", "audio"),
    "audio": ("tangram-clips", "audio", "video"),
    "composed": ("tangram-edits", COMPOSED, "image"),
}
"""Task to the model that answers it, the queries' modality and the candidates'."""

SENTENCE = {"sentence": ("tangram", "text", "text")}
"""Text to text: a caption asks for the other captions of its scene. In no table of the five."""

LOOKS = ("plain", "crayon", "products")
LOOKED_AT = ("image", "text")
"""The tasks that every look has; clips and edits exist in the plain one only."""

CAPTIONS = 5  # of a scene
CANDIDATES = 2000  # scenes or clips, at least


def tangram(task: str, split: str = "test", count: int = 2000, look: str = "plain") -> Dataset:
    """`count` queries of one task, against 2,000 images, 10,000 captions, or as many clips.

    A test set is whole whatever `count` is: fewer queries are asked of the same candidates.
    """
    check_known("tangram task", task, TASKS | SENTENCE)
    check_known("look", look, LOOKS)
    if look != "plain" and task not in LOOKED_AT:
        raise BadInput(
            f'there are no {task} queries in the look "{look}": expected look="plain", '
            f"or one of the tasks {', '.join(LOOKED_AT)}."
        )
    if count < 1:
        raise BadInput(f"got a count of {count} queries, expected at least 1.")
    _, query, gallery = (TASKS | SENTENCE)[task]
    total = max(count, CANDIDATES)
    queries, candidates, each = _sides(task, split, total, look)
    matches = [range(each * row, each * (row + 1)) for row in range(count)]
    ids = [str(row) for row in range(count)]
    return Dataset(f"tangram-{task}", query, gallery, queries[:count], ids, candidates, matches)


def _sides(task: str, split: str, count: int, look: str) -> tuple[Items, Items, int]:
    """Queries, candidates, and how many consecutive candidates are right for each query."""
    from queryshift.lab.tangram import candidates, captions, clips, edits

    if task == "composed":
        changes = edits(split, count)
        shown = [scene.image() for scene in candidates(changes)]
        return [edit.query() for edit in changes], shown, 1
    if task in ("video", "audio"):
        played = clips(split, count)
        seen, heard = [clip.frames() for clip in played], [clip.waveform() for clip in played]
        return (seen, heard, 1) if task == "video" else (heard, seen, 1)
    scenes = scenes_in(look, split, count)
    texts = [captions(scene) for scene in scenes]
    asked = [own.pop(row % CAPTIONS) for row, own in enumerate(texts) if task != "image"]
    if task == "text":
        return asked, [scene.image() for scene in scenes], 1
    rest = [text for own in texts for text in own]
    if task == "sentence":
        return asked, rest, CAPTIONS - 1
    return [scene.image() for scene in scenes], rest, CAPTIONS


def scenes_in(look: str, split: str, count: int) -> list[Scene]:
    """The scenes of a world in one look."""
    from queryshift.lab.tangram import crayon_scenes, product_scenes, scenes

    if look == "plain":
        return scenes(split, count)
    return (crayon_scenes if look == "crayon" else product_scenes)(count, split=split)
