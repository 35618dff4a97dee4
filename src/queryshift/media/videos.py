"""Videos: clips as sequences of frames, and the frames and audio of video files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadFile, BadInput, BadItem
from queryshift.support.optional import need

from .images import images, read_image
from .item_reading import decoding, is_stored, read_each, regular
from .limits import check_pixels, check_samples
from .waveform import Waveform

if TYPE_CHECKING:
    from PIL.Image import Image

VIDEO_SUFFIXES = (".mp4", ".mkv", ".webm", ".avi", ".mov")
FRAMES_PER_VIDEO = 10  # as in the published video benchmarks
USUAL_RATE = 25  # frames per second, if the video does not say


def clips(items: Iterable[Any], choose: Callable[[Any], Sequence[Any]]) -> list[list[Image]]:
    """Read the frames that `choose` picks from each clip, in RGB; a bad clip raises `BadItem`."""
    return read_each(items, lambda clip: _frames(choose(_clip(clip))))


def _clip(item: Any) -> Any:
    """Return the item; refuse one that is no sequence of images, such as a file or one frame."""
    is_sequence = hasattr(item, "__getitem__") and hasattr(item, "__len__")
    if isinstance(item, str | dict) or is_stored(item) or not is_sequence:
        raise BadInput(
            "expected a clip: a sequence of images. read_frames(path) of queryshift.media.videos "
            "gives ten of a video."
        )
    if getattr(item, "ndim", 4) == 3 and item.shape[2] == 3:
        raise BadInput("got one image, expected a clip: for one clip give [clip].")
    if getattr(item, "ndim", 4) == 0 or not len(item):
        raise BadInput("got a clip without frames: leave it out.")
    return item


def _frames(chosen: Sequence[Any]) -> list[Image]:
    try:
        return images(chosen)
    except BadItem as error:
        raise BadInput(f"frame {error.index}, {error.kind}: {error.reason}") from error


@dataclass(frozen=True)
class Sampling:
    """Which ten frames represent a video: one from each of ten equal parts."""

    within: float  # position in its part: 0 is the beginning, 0.5 the middle
    seconds: int | None = None  # use only the first seconds; None: the whole video

    def chosen(self, count: int) -> list[int]:
        """Return the numbers of the ten frames among `count`; a short video repeats some."""
        parts = range(FRAMES_PER_VIDEO)
        return [int((part + self.within) * count / FRAMES_PER_VIDEO) for part in parts]


THROUGHOUT = Sampling(within=0.5)


def read_clip(paths: Sequence[Path]) -> list[Image]:
    """Read the frames of a clip, which must have one size, or ten frames of a video."""
    if paths[0].suffix.lower() in VIDEO_SUFFIXES:
        return read_frames(paths[0])
    frames = [read_image(path) for path in paths]
    first = frames[0]
    for path, frame in zip(paths, frames, strict=True):
        if frame.size != first.size:
            raise BadFile(
                f'the frames of a clip must be of one size; "{paths[0]}" has {first.width} x '
                f'{first.height} pixels, "{path}" has {frame.width} x {frame.height}.'
            )
    return frames


def read_frames(video: Path, sampling: Sampling = THROUGHOUT) -> list[Image]:
    """Read ten frames of a video; it is decoded twice, first to count the frames.

    Args:
        video: a video file.
        sampling: which ten.

    Returns:
        PIL images. The size is checked before decoding.
    """
    with _opened(video, "video") as (container, stream):
        check_pixels(stream.width, stream.height)
        rate = stream.average_rate or USUAL_RATE
        most = None if sampling.seconds is None else int(rate * sampling.seconds)
        count = sum(1 for _ in islice(container.decode(stream), most))
        if not count:
            raise BadInput("got no frames that can be decoded, expected a video.")
    wanted = sampling.chosen(count)
    with _opened(video, "video") as (container, stream):
        numbered = enumerate(islice(container.decode(stream), wanted[-1] + 1))
        kept = {number: frame.to_image() for number, frame in numbered if number in wanted}
        return [kept[number] for number in wanted]


def read_video_audio(video: Path, rate: int) -> Waveform:
    """Read the first channel of a video's audio at `rate`."""
    with _opened(video, "audio") as (container, stream):
        resampler = need("av", "video", "reading videos").AudioResampler(format="s16p", rate=rate)
        parts: list[NDArray[np.int16]] = []
        count = 0
        for frame in chain(container.decode(stream), [None]):
            parts += [part.to_ndarray()[0] for part in resampler.resample(frame)]
            count += len(parts[-1]) if parts else 0
            check_samples(count, 1, rate)
        if not parts:
            raise BadInput("got no audio that can be decoded, expected a video with audio.")
    return Waveform(np.concatenate(parts), rate)


@contextmanager
def _opened(video: Path, kind: Literal["video", "audio"]) -> Iterator[tuple[Any, Any]]:
    """Open a video and its first stream of one kind; errors in the block name the video."""
    av = need("av", "video", f'reading the video "{video}"')
    with decoding(video, "a video"), av.open(str(regular(video))) as container:
        streams = getattr(container.streams, kind)
        if not streams:
            raise BadFile(f'"{video}" cannot be read as a video: it has no {kind}.')
        yield container, streams[0]
