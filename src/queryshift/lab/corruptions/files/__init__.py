"""Corrupted files: one, a folder, or the same ones again from a manifest.

A run goes from `recipe.py` (what to do) over `layouts.py` (a task per item) to
`corrupt_item.py` (start there) and `manifest.py`. Imports: the rest of `corruptions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from queryshift.errors import BadInput
from queryshift.support.processes import each
from queryshift.support.progress import track

from . import manifest
from .corrupt_item import ItemResult, ItemTask, make
from .input_files import Item, find_items
from .layouts import LAYOUTS, plan
from .manifest import Entry
from .recipe import Recipe

__all__ = ["LAYOUTS", "Recipe", "Summary", "corrupt_files", "make_again"]


@dataclass(frozen=True)
class Summary:
    """How many items a run made, kept from an earlier run, or failed to make."""

    made: int
    kept: int
    problems: tuple[str, ...]
    manifest: Path
    changed: int = 0  # captions that came out different
    captions: int = 0  # captions that were made


def corrupt_files(
    recipe: Recipe,
    source: Path,
    target: Path,
    layout: str = "plain",
    jobs: int | None = 1,
    base: Path | None = None,
) -> Summary:
    """Corrupt a file, or every fitting file in a folder, and note each in a manifest.

    Files that an earlier run made in the same way are kept. An item's id is its path below `base`,
    by default `source` or the folder of one file, so that it comes out the same alone or among
    others and with any number of processes; None for `jobs` is as many as are useful.
    """
    tasks = plan(recipe, source, target, layout, base)
    listed = tasks[0].root / manifest.NAME
    earlier = manifest.read(listed) if listed.exists() else []
    known = {tuple(entry.files): entry for entry in earlier}
    return _run([replace(task, known=known.get(task.outputs)) for task in tasks], listed, jobs)


def make_again(listed: Path, source: Path, target: Path, jobs: int | None = 1) -> Summary:
    """Make the files of a manifest once more below `target`, from the same clean files.

    Files that come out differently, or whose clean file is missing, are problems.
    """
    entries = {tuple(entry.files): entry for entry in manifest.read(listed)}.values()
    items = {
        (modality, item.id): item
        for modality in {entry.modality for entry in entries}
        for item in find_items(modality, source, avoid=target)
    }
    tasks, lost = [], []
    for entry in entries:
        item = items.get((entry.modality, entry.id))
        if item is None:
            lost.append(f'{entry.id}: there is no such item in "{source}".')
        else:
            tasks.append(_task_of(entry, item, target))
    summary = _run(tasks, target / manifest.NAME, jobs, _difference)
    return replace(summary, problems=(*lost, *summary.problems))


def _run(
    tasks: Sequence[ItemTask],
    listed: Path,
    jobs: int | None,
    objection: Callable[[ItemTask, ItemResult], str | None] = lambda task, done: done.problem,
) -> Summary:
    """Carry out the tasks, note each in the manifest as it is finished, and count."""
    if listed.is_symlink():
        raise BadInput(f'the manifest "{listed}" is a link, which may lead anywhere: move it away.')
    made = kept = changed = captions = 0
    problems = []
    finished = track(each(make, tasks, jobs), "corrupting", total=len(tasks))
    for task, done in zip(tasks, finished, strict=True):
        if done.entry is not None and not done.kept:
            manifest.append(listed, done.entry)
        if problem := objection(task, done):
            problems.append(f"{task.item.id}: {problem}")
        else:
            made, kept = made + (not done.kept), kept + done.kept
            changed, captions = changed + done.changed, captions + done.captions
    return Summary(made, kept, tuple(problems), listed, changed, captions)


def _task_of(entry: Entry, item: Item, root: Path) -> ItemTask:
    recipe = Recipe(
        entry.modality, entry.corruption, entry.severity, entry.seed, dict(entry.options)
    )
    return ItemTask(item, recipe, root, tuple(entry.files), entry.quality, known=entry)


def _difference(task: ItemTask, done: ItemResult) -> str | None:
    """How a result differs from the manifest, or None."""
    if done.entry is None or task.known is None or done.entry.files == task.known.files:
        return done.problem
    if done.entry.source != task.known.source:
        return "the clean file is not the one that the manifest was made from."
    return (
        f"came out differently than with queryshift {task.known.version}; other versions of "
        "numpy, OpenCV or Pillow can do that."
    )
