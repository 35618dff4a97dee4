"""Where a corrupted file goes: under its own name, or as in one of the published benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from queryshift.errors import BadInput, check_known

from ..names import NAMES, TABLES
from ..text.caption_words import LEVEL_OF_SEVERITY_1
from .corrupt_item import ItemTask
from .input_files import SUFFIXES, Item, find_items
from .recipe import Recipe

PUBLISHED_NAMES: Mapping[str, str] = TABLES["published_names"]
JPEG = (".jpg", ".jpeg")


@dataclass(frozen=True)
class Layout:
    """A folder per modality, corruption and severity, and how the published files were written."""

    folders: Mapping[str, str]  # by modality, with places for corruption and severity or level
    jpeg_quality: int = 95
    lossy: bool = False  # every image a JPEG, every audio file a WAV, as the scripts wrote them
    frames_first: bool = False  # frame_3/clip.jpg, where others have clip/frame_3.jpg

    def folder(self, modality: str, corruption: str, severity: int) -> str:
        """Where the files of a corruption go; the sentence level has one level only."""
        once = corruption in NAMES["text"]["sentence"]
        return self.folders[modality].format(
            corruption=PUBLISHED_NAMES.get(corruption, corruption),
            severity=severity,
            level=1 if once else severity + LEVEL_OF_SEVERITY_1 - 1,
        )


def find_layout(name: str, modality: str) -> Layout:
    """The layout called `name`, if it has a place for the modality."""
    check_known("layout", name, LAYOUTS)
    layout = LAYOUTS[name]
    if modality not in layout.folders:
        fitting = ", ".join(each for each in LAYOUTS if modality in LAYOUTS[each].folders)
        raise BadInput(f'the layout "{name}" has no place for {modality}; these do: {fitting}.')
    return layout


def output_name(layout: Layout, modality: str, source: str) -> str:
    """The name of the corrupted copy: JPEG stays JPEG, FLAC FLAC; others become PNG and WAV."""
    path = PurePosixPath(source)
    suffix = path.suffix.lower()
    if modality in ("image", "video") and (suffix not in JPEG or layout.lossy):
        return str(path.with_suffix(".jpg" if layout.lossy else ".png"))
    if modality == "audio" and (suffix != ".flac" or layout.lossy):
        return str(path.with_suffix(".wav"))
    return str(path)


LAYOUTS = {name: Layout(**settings) for name, settings in TABLES["layouts"].items()}


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
    folder = PurePosixPath(layout.folder(recipe.modality, recipe.corruption, recipe.step))
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
