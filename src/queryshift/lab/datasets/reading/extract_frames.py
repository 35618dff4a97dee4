"""Video files become ten frames and a waveform, in the folders that CAV-MAE and READ use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile
from queryshift.lab.corruptions.files.corrupt_item import write_whole
from queryshift.lab.corruptions.files.input_files import encode_audio, encode_image
from queryshift.media.videos import VIDEO_SUFFIXES, Sampling, read_frames, read_video_audio
from queryshift.support.progress import track

from ..audio_video import AUDIO

SIDE = 224  # pixels of a frame
RATE = 16_000  # samples a second
CAV_MAE = Sampling(within=0, seconds=10)
QUALITY = 95


@dataclass(frozen=True)
class Extraction:
    """Which videos of a folder were extracted."""

    done: list[str] = field(default_factory=list)
    there: list[str] = field(default_factory=list)  # extracted by an earlier run
    failed: list[str] = field(default_factory=list)  # a sentence each


def extract(folder: str | Path, out: str | Path) -> Extraction:
    """Write `frame_0/NAME.jpg` to `frame_9` and `audio/NAME.wav` to `out` for each video.

    A video is not read again if its waveform, which is written last, is there already.
    """
    found = sorted(path for path in Path(folder).glob("*") if path.suffix.lower() in VIDEO_SUFFIXES)
    if not found:
        raise BadFile(
            f'"{folder}" has no videos: expected files that end in {", ".join(VIDEO_SUFFIXES)}.'
        )
    outcome = Extraction()
    first = {video.stem: video for video in reversed(found)}
    for video in track(found, "reading videos"):
        try:
            if video is not first[video.stem]:
                raise BadFile(
                    f'"{video.name}" and "{first[video.stem].name}" would become the same files: '
                    "rename one."
                )
            (outcome.done if _made(video, Path(out)) else outcome.there).append(video.name)
        except BadFile as error:
            outcome.failed.append(str(error))
    return outcome


def _made(video: Path, out: Path) -> bool:
    """Make the frames and the waveform of one video; False if they are there already."""
    audio = out / AUDIO / f"{video.stem}.wav"
    if audio.is_file():
        return False
    frames, wave = squares(video), read_video_audio(video, RATE)
    for number, frame in enumerate(frames):
        place = out / f"frame_{number}" / f"{video.stem}.jpg"
        write_whole(place, encode_image(frame, ".jpg", QUALITY))
    write_whole(audio, encode_audio(wave, ".wav"))
    return True


def squares(video: Path) -> Sequence[Any]:
    """Ten frames of a video as CAV-MAE takes them, their middle squares of 224 pixels."""
    from PIL import Image, ImageOps

    size, method = (SIDE, SIDE), Image.Resampling.BILINEAR
    return [ImageOps.fit(frame, size, method) for frame in read_frames(video, CAV_MAE)]
