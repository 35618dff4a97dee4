"""Video files become ten frames and a waveform, in the folders that CAV-MAE and READ use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..corruptions.audio.waveform import Waveform
from ..corruptions.files.formats import FILMS, encode_picture, encode_sound
from ..errors import BadFile, missing
from ..progress import track
from .audio_video import SOUNDS
from .items import FRAMES

SIDE = 224  # pixels of a frame
RATE = 16_000  # samples a second
SECONDS = 10  # of a clip that frames are taken from
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
    films = sorted(path for path in Path(folder).glob("*") if path.suffix.lower() in FILMS)
    if not films:
        raise BadFile(f'"{folder}" has no films: expected files that end in {", ".join(FILMS)}.')
    outcome = Extraction()
    for film in track(films, "reading films"):
        sound = Path(out) / SOUNDS / f"{film.stem}.wav"
        if sound.is_file():
            outcome.there.append(film.name)
            continue
        try:
            frames, wave = read_frames(film), read_waveform(film)
        except BadFile as error:
            outcome.failed.append(str(error))
            continue
        for number, frame in enumerate(frames):
            place = Path(out) / f"frame_{number}" / f"{film.stem}.jpg"
            _write(place, encode_picture(frame, ".jpg", QUALITY))
        _write(sound, encode_sound(wave, ".wav"))
        outcome.done.append(film.name)
    return outcome


def read_frames(film: Path) -> Sequence[Any]:
    """Ten frames at even steps over the first ten seconds, their middle squares of 224 pixels."""
    from PIL import Image, ImageOps

    with _opened(film, "video") as (container, stream):
        most = int((stream.average_rate or 25) * SECONDS)
        count = sum(1 for _, _ in zip(range(most), container.decode(stream), strict=False))
    if not count:
        raise BadFile(f'"{film}" has no frames that can be decoded.')
    wanted = [number * count // FRAMES for number in range(FRAMES)]
    with _opened(film, "video") as (container, stream):
        numbered = zip(range(wanted[-1] + 1), container.decode(stream), strict=False)
        kept = {number: frame.to_image() for number, frame in numbered if number in wanted}
    size, method = (SIDE, SIDE), Image.Resampling.BILINEAR
    return [ImageOps.fit(kept[number], size, method) for number in wanted]


def read_waveform(film: Path) -> Waveform:
    """The first channel of the sound at 16 kHz."""
    import av

    with _opened(film, "audio") as (container, stream):
        resampler = av.AudioResampler(format="s16p", rate=RATE)
        parts: list[NDArray[np.int16]] = []
        for frame in [*container.decode(stream), None]:
            parts += [part.to_ndarray()[0] for part in resampler.resample(frame)]
    if not parts:
        raise BadFile(f'"{film}" has no sound that can be decoded.')
    return Waveform(np.concatenate(parts), RATE)


@contextmanager
def _opened(film: Path, kind: str) -> Iterator[tuple[Any, Any]]:
    """The film and its first stream of one kind; what goes wrong inside names the film."""
    try:
        import av
    except ImportError:
        raise missing("av", "video", f'reading the film "{film}"') from None
    try:
        with av.open(str(film)) as container:
            streams = container.streams.get({kind: 0})
            yield container, streams[0]
    except (av.FFmpegError, OSError, IndexError) as error:
        reason = f"it has no {kind}" if isinstance(error, IndexError) else str(error)
        raise BadFile(f'"{film}" cannot be read as a film: {reason}.') from error


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f"{path.suffix}.part")
    unfinished.write_bytes(content)
    unfinished.replace(path)
