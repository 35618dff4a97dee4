"""Clips: ten frames and a waveform that the same events make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random

import numpy as np
from numpy.typing import NDArray

from . import draw_shapes
from .scenes import BACKGROUNDS, COLOURS, RADII, SIZES
from .styles import PLAIN
from .worlds import belongs, distinct, generator, take

RATE = 16_000
SLOT = 2048  # samples that one frame lasts
Waveform = NDArray[np.float32]

# Strength of each overtone of a shape's voice, the fundamental first.
VOICES = {
    "circle": (1.0,),
    "square": (1.0, 0.0, 0.6, 0.0, 0.45, 0.0, 0.35),
    "triangle": (1.0, 0.0, 0.0, 0.8),
    "star": (0.5, 0.7, 0.9, 0.7, 0.5, 0.4, 0.3),
    "cross": (0.3, 1.0, 0.0, 0.0, 0.0, 0.8),
    "heart": (1.0, 0.7, 0.4),
    "moon": (0.2, 0.0, 1.0),
    "arrow": (0.6, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.7),
}
_TABLE = 2048  # samples of one cycle, a power of two
_OCTAVES = {"small": 740.0, "medium": 370.0, "large": 185.0}


@cache
def _cycle(shape: str) -> Waveform:
    turn = np.arange(_TABLE) * (2 * np.pi / _TABLE)
    wave = np.zeros(_TABLE)
    for overtone, part in enumerate(VOICES[shape], start=1):
        wave += part * np.sin(overtone * turn)
    return np.asarray(wave / np.abs(wave).max(), np.float32)


@cache
def _times(frames: int) -> Waveform:
    """When each sample falls, counted in frames from the middle of the first."""
    return np.arange(0.5, frames * SLOT, dtype=np.float32) / np.float32(SLOT) - np.float32(0.5)


def voice(shape: str, size: str, heights: Waveform, loud: Waveform) -> Waveform:
    """A shape singing: higher where it is higher, an octave lower the larger it is.

    `heights` (0 to 1) and `loud` have one value per frame.
    """
    pitches = _OCTAVES[size] * np.exp2(heights)
    pitch = np.interp(_times(len(heights)), np.arange(len(heights)), pitches)
    phase = np.cumsum(pitch * (_TABLE / RATE)).astype(np.int32) & (_TABLE - 1)
    sung: Waveform = _cycle(shape)[phase] * np.repeat(loud, SLOT)
    return sung


@cache
def _knock() -> Waveform:
    time = np.arange(SLOT // 2) / RATE
    thud = np.sin(2 * np.pi * 110 * time) + 0.8 * np.random.RandomState(3).uniform(-1, 1, len(time))
    return (thud * np.exp(-time * 60)).astype(np.float32)


@cache
def _chime() -> Waveform:
    time = np.arange(SLOT) / RATE
    ring = np.sin(2 * np.pi * 3100 * time) + 0.6 * np.sin(2 * np.pi * 4650 * time)
    return (ring * np.exp(-time * 25)).astype(np.float32)


def strike(wave: Waveform, frames: list[int], kind: str) -> None:
    """Add a knock or a chime at the start of each of these frames."""
    sound = _knock() if kind == "knock" else _chime()
    for frame in frames:
        start = frame * SLOT
        wave[start : start + len(sound)] += 0.7 * sound


AIRS = {"white": 0.0, "grey": 0.02, "cream": 0.05, "mint": 0.08, "sky": 0.0, "lilac": 0.0}
_HUMS = {"sky": 60.0, "lilac": 5600.0}


@cache
def air(background: str, count: int) -> Waveform:
    """The sound of the place: silence, hisses of three strengths, a low hum, a high whine."""
    wave = AIRS[background] * np.random.RandomState(11).uniform(-1, 1, count)
    if background in _HUMS:
        wave += 0.15 * np.sin(np.arange(count) * (2 * np.pi * _HUMS[background] / RATE))
    return wave.astype(np.float32)


FRAMES = 10
_LANES = (11.0, 32.0, 53.0)
_FLOOR, _CEILING = 54.0, 10.0

Video = NDArray[np.uint8]
Track = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Actor:
    """A shape with its height (0 to 1), its strength (0: hidden) and its events, frame by frame."""

    shape: str
    size: str
    lane: int
    colours: tuple[str, str]
    heights: Track
    strengths: Track
    knocks: tuple[int, ...]
    change: int  # the frame in which the colour changes, with a chime; FRAMES: never

    def content(self) -> str:
        """What the actor does, as text."""
        heights = ",".join(f"{height:.2f}" for height in self.heights)
        strengths = ",".join(f"{strength:.1f}" for strength in self.strengths)
        return f"{self.shape} {self.size} {self.lane} {heights} {strengths} {self.change}"


@dataclass(frozen=True, slots=True)
class Clip:
    """Actors before a background; it can be watched and heard."""

    actors: tuple[Actor, ...]
    background: str

    def content(self) -> str:
        """The events as text, without the colours, which cannot be heard."""
        return "; ".join([self.background, *sorted(actor.content() for actor in self.actors)])

    def frames(self) -> Video:
        """The clip's ten images, (10, 64, 64, 3)."""
        return np.stack([self._frame(index) for index in range(FRAMES)])

    def _frame(self, index: int) -> draw_shapes.Pixels:
        canvas = draw_shapes.blank(PLAIN.papers[self.background], PLAIN)
        for actor in self.actors:
            if not actor.strengths[index]:
                continue
            height = _FLOOR - actor.heights[index] * (_FLOOR - _CEILING)
            radius = RADII[actor.size] * (0.55 + 0.45 * actor.strengths[index])
            ink = PLAIN.inks[actor.colours[index >= actor.change]]
            draw_shapes.paint(
                canvas, actor.shape, (_LANES[actor.lane], height), radius, (ink, "solid")
            )
        return draw_shapes.finish(canvas)

    def waveform(self) -> Waveform:
        """The audio of the clip: 1.28 s at 16 kHz, from -1 to 1."""
        wave = air(self.background, FRAMES * SLOT).copy()
        for actor in self.actors:
            heights = np.asarray(actor.heights, np.float32)
            loud = 0.22 * np.asarray(actor.strengths, np.float32)
            wave += voice(actor.shape, actor.size, heights, loud)
            strike(wave, list(actor.knocks), "knock")
            if actor.change < FRAMES:
                strike(wave, [actor.change], "chime")
        return np.clip(wave, -1, 1)


def clips(split: str, count: int, seed: int = 0) -> list[Clip]:
    """The first `count` clips of one world, all different."""
    rng = generator("clips", split, seed)
    return take(count, distinct(lambda: _draw(rng, split), Clip.content))


def _draw(rng: Random, split: str) -> Clip:
    while True:
        lanes = rng.sample(range(len(_LANES)), rng.choice((2, 2, 3)))
        shapes = rng.sample(list(VOICES), len(lanes))
        actors = tuple(_actor(rng, shape, lane) for shape, lane in zip(shapes, lanes, strict=True))
        clip = Clip(actors, rng.choice(BACKGROUNDS))
        if belongs(clip.content(), split):
            return clip


def _actor(rng: Random, shape: str, lane: int) -> Actor:
    heights, strengths, knocks = rng.choice(_MOTIONS)(rng)
    change = rng.choice((FRAMES, FRAMES, *range(2, FRAMES - 1)))
    colours = rng.sample(COLOURS, 2)
    return Actor(
        shape, rng.choice(SIZES), lane, (colours[0], colours[1]), heights, strengths, knocks, change
    )


Motion = tuple[Track, Track, tuple[int, ...]]
_STEADY: Track = (1.0,) * FRAMES


def _glide(rng: Random) -> Motion:
    """From one height to another."""
    start, end = rng.sample((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), 2)
    steps = (start + (end - start) * frame / (FRAMES - 1) for frame in range(FRAMES))
    return tuple(round(step, 3) for step in steps), _STEADY, ()


def _bounce(rng: Random) -> Motion:
    """Down to the floor and up again, with a knock each time."""
    period, top = rng.choice((2, 3, 4, 5)), rng.choice((0.4, 0.7, 1.0))
    first = rng.randrange(period)
    arcs = ((frame - first) % period / period for frame in range(FRAMES))
    heights = tuple(round(4 * top * arc * (1 - arc), 3) for arc in arcs)
    return heights, _STEADY, tuple(range(first, FRAMES, period))


def _hop(rng: Random) -> Motion:
    """On the floor, with jumps at odd moments and a knock after each."""
    jumps = sorted(rng.sample(range(FRAMES - 1), rng.choice((2, 3))))
    heights = tuple(0.6 if frame in jumps else 0.0 for frame in range(FRAMES))
    return heights, _STEADY, tuple(frame + 1 for frame in jumps if frame + 1 not in jumps)


def _blink(rng: Random) -> Motion:
    """At one height, there in some frames and gone in others."""
    shown = set(rng.sample(range(FRAMES), rng.choice((4, 5, 6))))
    height = rng.choice((0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
    return (height,) * FRAMES, tuple(float(frame in shown) for frame in range(FRAMES)), ()


def _swell(rng: Random) -> Motion:
    """At one height, growing and shrinking."""
    period, phase = rng.choice((3, 4, 5, 8)), rng.randrange(8)
    beats = (abs(2 * ((frame + phase) % period) / period - 1) for frame in range(FRAMES))
    height = rng.choice((0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
    return (height,) * FRAMES, tuple(round(0.2 + 0.8 * beat, 2) for beat in beats), ()


_MOTIONS: tuple[Callable[[Random], Motion], ...] = (_glide, _bounce, _hop, _blink, _swell)
