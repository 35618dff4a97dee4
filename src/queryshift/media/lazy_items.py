"""Items on disk that are opened when they are accessed.

Their readers are imported only then, so listing the datasets does not import NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, overload

from queryshift.errors import BadFile
from queryshift.support.paths import is_file

FRAMES = 10  # of a clip, in the folders frame_0 to frame_9


class Source(Protocol):
    """The source of an item."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that must exist."""

    def open(self) -> Any:
        """Open the item; a `BadFile` names the file that cannot be read."""


@dataclass(frozen=True)
class _OneFile:
    path: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """The one file."""
        return (self.path,)


class ImageFile(_OneFile):
    """An image file, opened upright and in RGB."""

    def open(self) -> Any:
        """Return a Pillow image."""
        from .images import read_image

        return read_image(present(self.path)).convert("RGB")


class AudioFile(_OneFile):
    """An audio file, opened as a mono `Waveform`."""

    def open(self) -> Any:
        """Return a `Waveform` at the file's own rate."""
        from .audio import read_audio

        return read_audio(present(self.path))


@dataclass(frozen=True)
class EncodedImage:
    """The bytes of an image file in a table, opened upright and in RGB."""

    data: bytes
    files: tuple[Path, ...] = ()  # none: the table is in memory

    def open(self) -> Any:
        """Return a Pillow image."""
        from .images import read_image

        return read_image(self.data).convert("RGB")


@dataclass(frozen=True)
class Frames:
    """The frames of a clip, in these files or all in one video."""

    files: tuple[Path, ...]

    def open(self) -> Any:
        """Return a list of Pillow images in order."""
        from .videos import read_clip

        present(self.files[0])
        return [frame.convert("RGB") for frame in read_clip(self.files)]


@dataclass(frozen=True)
class Clip:
    """The frames of a clip, `folder/frame_0/name.jpg` to `frame_9`; some may be missing."""

    folder: Path
    name: str

    @property
    def files(self) -> tuple[Path, ...]:
        """The frames that exist; the path of the first if none does."""
        frames = [self.folder / f"frame_{i}" / f"{self.name}.jpg" for i in range(FRAMES)]
        return tuple(frame for frame in frames if is_file(frame)) or (frames[0],)

    def open(self) -> Any:
        """Return a list of Pillow images in order."""
        return Frames(self.files).open()


@dataclass(frozen=True)
class Composed:
    """An image, and a text that says how to change it."""

    image: ImageFile
    text: str

    @property
    def files(self) -> tuple[Path, ...]:
        """The image's file."""
        return self.image.files

    def open(self) -> Any:
        """Return the pair of Pillow image and text."""
        return self.image.open(), self.text


class LazyItems(Sequence[Any]):
    """A sequence of items, each opened every time it is accessed."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sources)

    def __len__(self) -> int:
        return len(self.sources)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> LazyItems: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return LazyItems(self.sources[place])
        return self.sources[place].open()


def selected(items: Sequence[Any], rows: Sequence[int]) -> Sequence[Any]:
    """Select items by row number, without opening lazy ones."""
    if isinstance(items, LazyItems):
        return LazyItems([items.sources[row] for row in rows])
    return [items[row] for row in rows]


def present(path: Path) -> Path:
    """Return `path` if the file exists."""
    if not is_file(path):
        raise BadFile(f'there is no file "{path}": `queryshift data check` names all that lack.')
    return path
