"""Corrupt a file or a folder: carry out a task per item, note each in a manifest, and count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from queryshift.errors import BadInput
from queryshift.support.processes import each
from queryshift.support.progress import track

from . import manifest
from .corrupt_item import ItemResult, ItemTask, make
from .layouts import plan
from .recipe import Recipe


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
    return run_tasks([replace(task, known=known.get(task.outputs)) for task in tasks], listed, jobs)


def run_tasks(
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
