"""Making one corrupted item: read, corrupt, write whole, and say how it was made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath

from queryshift import __version__
from queryshift.errors import BadInput, Error, MissingExtra
from queryshift.media.audio import read_audio
from queryshift.media.images import read_image
from queryshift.media.videos import read_clip

from .input_files import Item, encode_audio, encode_image, read_captions
from .manifest import Entry
from .recipe import Recipe


@dataclass(frozen=True)
class ItemTask:
    """One item to corrupt: its source, recipe and outputs, and its entry of an earlier run."""

    item: Item
    recipe: Recipe
    root: Path
    outputs: tuple[str, ...]
    quality: int
    known: Entry | None = None


@dataclass(frozen=True)
class ItemResult:
    """The result of a task: an entry for the manifest, or a problem in one sentence."""

    entry: Entry | None = None
    kept: bool = False
    problem: str | None = None
    changed: int = 0  # captions that came out different
    captions: int = 0


def make(task: ItemTask) -> ItemResult:
    """Corrupt one item, unless its files are there already and as they should be."""
    try:
        source = _digest(task.item.sources)
        if _is_still_right(task, source):
            return ItemResult(task.known, kept=True)
        contents = _corrupted(task)
        if len(contents) != len(task.outputs):
            raise BadInput(f"{len(contents)} files come out, {len(task.outputs)} were expected.")
        files = dict(zip(task.outputs, contents, strict=True))
        for name, content in files.items():
            write_whole(inside(task.root, name), content)
        changed, captions = _changed(task)
        entry = _entry(task, source, files)
        return ItemResult(entry, changed=changed, captions=captions)
    except MissingExtra:
        raise
    except (Error, OSError) as error:
        return ItemResult(problem=str(error))


def inside(root: Path, name: str) -> Path:
    """The path of `name` below `root`, or an error if it would lead out of there."""
    base = root.resolve()
    path = base / name
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise BadInput(f'"{name}" does not stay inside the output folder "{root}".')
    if not path.parent.resolve().is_relative_to(base):
        raise BadInput(f'"{path.parent}" is a link that leads out of the output folder "{root}".')
    return path


def write_whole(path: Path, content: bytes) -> None:
    """Write under another name first, so that `path` never holds half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    partial.unlink(missing_ok=True)  # of a killed process, or a link that would lead elsewhere
    try:
        with partial.open("xb") as file:
            file.write(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _corrupted(task: ItemTask) -> list[bytes]:
    item, recipe = task.item, task.recipe
    suffix = PurePosixPath(task.outputs[0]).suffix.lower()
    if recipe.modality == "text":
        captions = read_captions(item.sources[0])
        numbered = enumerate(captions.texts, start=1)
        return [captions.encode(recipe.apply(text, f"{item.id}#{n}") for n, text in numbered)]
    if recipe.modality == "audio":
        wave = recipe.apply(read_audio(item.sources[0]), item.id)
        return [encode_audio(wave, suffix)]
    if recipe.modality == "image":
        image = recipe.apply(read_image(item.sources[0]), item.id)
        return [encode_image(image, suffix, task.quality)]
    frames = recipe.apply(read_clip(item.sources), item.id)
    return [encode_image(frame, suffix, task.quality) for frame in frames]


def _changed(task: ItemTask) -> tuple[int, int]:
    """How many captions came out different, of how many; rules leave many as they are."""
    if task.recipe.modality != "text":
        return 0, 0
    before = read_captions(task.item.sources[0]).texts
    after = read_captions(inside(task.root, task.outputs[0])).texts
    return sum(old != new for old, new in zip(before, after, strict=True)), len(before)


def _entry(task: ItemTask, source: str, files: dict[str, bytes]) -> Entry:
    return Entry(
        id=task.item.id,
        **asdict(task.recipe),
        backend=task.recipe.backend,
        quality=task.quality,
        version=__version__,
        source=source,
        files={name: sha256(content).hexdigest() for name, content in files.items()},
    )


def _is_still_right(task: ItemTask, source: str) -> bool:
    """Whether an earlier run made just this, and its files have not changed since."""
    wanted = _entry(task, source, dict.fromkeys(task.outputs, b""))
    if task.known is None or not task.known.made_like(wanted):
        return False
    paths = {inside(task.root, name): digest for name, digest in task.known.files.items()}
    return all(path.is_file() and _digest([path]) == digest for path, digest in paths.items())


def _digest(paths: Iterable[Path]) -> str:
    """SHA-256 of the files in order, as if they were one."""
    digest = sha256()
    for path in paths:
        with path.open("rb") as file:
            file_digest(file, lambda: digest)
    return digest.hexdigest()
