"""Video files: their streams, and ten frames that stand for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from queryshift.errors import BadFile, missing

from .reading import check_size, named

FILMS = (".mp4", ".mkv", ".webm", ".avi", ".mov")
FRAMES_OF_A_FILM = 10  # as in the published video benchmarks
USUAL_RATE = 25  # frames a second, of a film that does not say


@dataclass(frozen=True)
class Sampling:
    """Which ten frames stand for a film: one out of each of ten equal parts."""

    within: float  # where in its part a frame is taken: 0 at the beginning, 0.5 in the middle
    seconds: int | None = None  # of the film's beginning that count; None: all of it

    def chosen(self, count: int) -> list[int]:
        """The places of the ten among `count` frames; in a short film some are the same."""
        parts = range(FRAMES_OF_A_FILM)
        return [int((part + self.within) * count / FRAMES_OF_A_FILM) for part in parts]


THROUGHOUT = Sampling(within=0.5)


def read_frames(film: Path, sampling: Sampling = THROUGHOUT) -> list[Any]:
    """Ten frames of a film as Pillow images; it is decoded twice, to count and to take them."""
    with opened(film, "video") as (container, stream):
        check_size(film, stream.width, stream.height)
        rate = stream.average_rate or USUAL_RATE
        most = None if sampling.seconds is None else int(rate * sampling.seconds)
        count = sum(1 for _ in islice(container.decode(stream), most))
    if not count:
        raise BadFile(f'"{film}" has no frames that can be decoded.')
    wanted = sampling.chosen(count)
    with opened(film, "video") as (container, stream):
        numbered = enumerate(islice(container.decode(stream), wanted[-1] + 1))
        kept = {number: frame.to_image() for number, frame in numbered if number in wanted}
        return [kept[number] for number in wanted]


@contextmanager
def opened(film: Path, kind: Literal["video", "audio"]) -> Iterator[tuple[Any, Any]]:
    """The film and its first stream of one kind; what goes wrong inside names the film."""
    try:
        import av
    except ImportError:
        raise missing("av", "video", f'reading the film "{film}"') from None
    with named(film, "a film"), av.open(str(film)) as container:
        streams = getattr(container.streams, kind)
        if not streams:
            raise BadFile(f'"{film}" cannot be read as a film: it has no {kind}.')
        yield container, streams[0]
