"""Rebuild corrupted files from their manifest, and say which came out differently and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from . import manifest
from .corrupt_folder import Summary, run_tasks
from .corrupt_item import ItemResult, ItemTask
from .input_files import Item, find_items
from .manifest import Entry
from .recipe import Recipe


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
    summary = run_tasks(tasks, target / manifest.NAME, jobs, _difference)
    return replace(summary, problems=(*lost, *summary.problems))


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
