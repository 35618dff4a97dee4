"""Video files become ten frames and a waveform, in the folders that CAV-MAE and READ use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile
from queryshift.lab.corruptions.files.corrupt_item import write_whole
from queryshift.lab.corruptions.files.input_files import encode_picture, encode_sound
from queryshift.media.videos import VIDEO_SUFFIXES, Sampling, read_frames, read_video_audio
from queryshift.support.progress import track

from ..audio_video import SOUNDS

SIDE = 224  # pixels of a frame
RATE = 16_000  # samples a second
CAV_MAE = Sampling(within=0, seconds=10)
QUALITY = 95


@dataclass(frozen=True)
class Extraction:
    """What became of a folder of films."""

    done: list[str] = field(default_factory=list)
    there: list[str] = field(default_factory=list)  # extracted by an earlier run
    failed: list[str] = field(default_factory=list)  # a sentence each


def extract(folder: str | Path, out: str | Path) -> Extraction:
    """Write `out/frame_0/NAME.jpg` to `frame_9` and `out/audio/NAME.wav` for each film in `folder`.

    A film whose waveform, which is written last, is there already is not read again.
    """
    found = sorted(path for path in Path(folder).glob("*") if path.suffix.lower() in VIDEO_SUFFIXES)
    if not found:
        raise BadFile(
            f'"{folder}" has no films: expected files that end in {", ".join(VIDEO_SUFFIXES)}.'
        )
    outcome = Extraction()
    first = {film.stem: film for film in reversed(found)}
    for film in track(found, "reading films"):
        try:
            if film is not first[film.stem]:
                raise BadFile(
                    f'"{film.name}" and "{first[film.stem].name}" would become the same files: '
                    "rename one."
                )
            (outcome.done if _made(film, Path(out)) else outcome.there).append(film.name)
        except BadFile as error:
            outcome.failed.append(str(error))
    return outcome


def _made(film: Path, out: Path) -> bool:
    """Make the frames and the waveform of one film; False if they are there already."""
    sound = out / SOUNDS / f"{film.stem}.wav"
    if sound.is_file():
        return False
    frames, wave = squares(film), read_video_audio(film, RATE)
    for number, frame in enumerate(frames):
        place = out / f"frame_{number}" / f"{film.stem}.jpg"
        write_whole(place, encode_picture(frame, ".jpg", QUALITY))
    write_whole(sound, encode_sound(wave, ".wav"))
    return True


def squares(film: Path) -> Sequence[Any]:
    """Ten frames of a film as CAV-MAE takes them, their middle squares of 224 pixels."""
    from PIL import Image, ImageOps

    size, method = (SIDE, SIDE), Image.Resampling.BILINEAR
    return [ImageOps.fit(frame, size, method) for frame in read_frames(film, CAV_MAE)]
