"""From a recipe and two paths to the tasks of a run, with every output name settled and checked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from queryshift.errors import BadInput

from .corrupt_item import ItemTask
from .find_items import SUFFIXES, Item, find_items
from .layouts import Layout, find_layout, output_name
from .recipe import Recipe


def plan(
    recipe: Recipe, source: Path, target: Path, layout: str, base: Path | None = None
) -> list[ItemTask]:
    """One task per item of `source`; `target` is a folder, or a file for one file."""
    style = find_layout(layout, recipe.modality)
    if layout == "plain" and _names_a_file(recipe.modality, source, target):
        (item,) = find_items(recipe.modality, source, base=base)
        tasks = [ItemTask(item, recipe, target.parent, (target.name,), style.jpeg_quality)]
    elif target.is_file():
        raise BadInput(f'"{target}" is a file; name a folder for the output.')
    else:
        tasks = [
            ItemTask(item, recipe, target, outputs(style, recipe, item), style.jpeg_quality)
            for item in find_items(recipe.modality, source, avoid=target, base=base)
        ]
    check(tasks)
    return tasks


def outputs(layout: Layout, recipe: Recipe, item: Item) -> tuple[str, ...]:
    """The names of an item's corrupted files below the output folder."""
    folder = PurePosixPath(layout.folders[recipe.modality](recipe.corruption, recipe.step))
    if recipe.modality != "video":
        return (str(folder / output_name(layout, recipe.modality, item.id)),)
    frames = [output_name(layout, "video", frame) for frame in item.frames]
    if not layout.frames_first:
        return tuple(str(folder / item.id / frame) for frame in frames)
    suffixes = [PurePosixPath(frame).suffix for frame in frames]
    return tuple(
        str(folder / f"frame_{index}" / (item.id + suffix)) for index, suffix in enumerate(suffixes)
    )


def check(tasks: Iterable[ItemTask]) -> None:
    """Refuse two items that would become one file, and outputs that would replace clean files."""
    taken: dict[str, str] = {}
    clean = {path.resolve() for task in tasks for path in task.item.sources}
    for task in tasks:
        for name in task.outputs:
            if name in taken:
                raise BadInput(
                    f'"{taken[name]}" and "{task.item.id}" would both become "{name}": '
                    "rename one, or put them in different folders."
                )
            taken[name] = task.item.id
            if (task.root / name).resolve() in clean:
                raise BadInput(
                    f'"{task.root / name}" is a clean file and would be overwritten: '
                    "name another output."
                )


def _names_a_file(modality: str, source: Path, target: Path) -> bool:
    fitting = target.suffix.lower() in SUFFIXES[modality]
    return source.is_file() and fitting and not target.is_dir()
