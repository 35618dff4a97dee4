"""Thirteen streams that could ruin a session: image queries of the tangram world, 64 at a time.

The development world has shifts of its own: none of them is among those of the test world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch.nn.functional import normalize

from queryshift.encoders.encoder import Encoder
from queryshift.galleries.memory.memory_gallery import Gallery
from queryshift.lab.corruptions import Corruption, corrupt, find
from queryshift.lab.datasets.tangram import CAPTIONS
from queryshift.lab.tangram import captions, scenes

from .dev_shifts import gamma, grain, tint

BATCH, SCENES, OTHERS, SEVERITY = 64, 2000, 2000, 3
REPEATED = 300  # the picture that is asked for again and again in the first seed
TARGETS = 8  # candidates that queries are aimed at
BOTS, BOT_SHARE = 20, 0.9
TEST_SHIFTS = (
    *("gaussian_noise", "shot_noise", "pixelate", "impulse_noise"),
    *("contrast", "brightness", "fog", "speckle_noise"),
)
Picture = Any


@dataclass(frozen=True)
class Asked:
    """One query of a stream."""

    picture: Picture
    scene: int | None = None  # the one asked for; None: the gallery has no right candidate
    counted: bool = True  # whether its answer is part of the stream's recall


@dataclass(frozen=True)
class _Shift:
    """A shift of the development world at one strength, whatever the severity."""

    act: Callable[[Picture, float, Generator], Picture]
    strength: float

    @property
    def __name__(self) -> str:
        return f"{self.act.__name__} {self.strength}"

    def __call__(self, item: Any, severity: int, rng: Generator, /) -> Any:
        return self.act(item, self.strength, rng)


def washed(image: Picture, strength: float, rng: Generator) -> Picture:
    """Colours drawn towards grey."""
    grey = image.mean(axis=2, keepdims=True)
    return ((1 - strength) * image + strength * grey).round().astype(np.uint8)


DEV_SHIFTS = (
    *(_Shift(grain, 0.16), _Shift(gamma, 0.365), _Shift(tint, 0.486), _Shift(washed, 0.8)),
    *(_Shift(grain, 0.09), _Shift(gamma, 0.6), _Shift(tint, 0.7), _Shift(grain, 0.12)),
)


@dataclass(frozen=True, eq=False)
class World:
    """The pictures that streams are made of, and who could be fooled by them."""

    split: str
    seed: int
    encoder: Encoder
    gallery: Gallery

    @cached_property
    def pictures(self) -> list[Picture]:
        """One of each scene; behind those of the gallery, as many that are not there."""
        return [scene.image() for scene in scenes(self.split, SCENES + OTHERS)]

    @cached_property
    def shifts(self) -> tuple[Corruption, ...]:
        """Several; the first takes most of the recall."""
        if self.split == "dev":
            return DEV_SHIFTS
        return tuple(find("image", name) for name in TEST_SHIFTS)

    def rng(self, purpose: str) -> Generator:
        """Chance for one purpose."""
        return np.random.default_rng([self.seed, *purpose.encode()])

    def order(self, purpose: str, count: int) -> list[int]:
        """Scenes of the gallery in a random order, again and again if there are too few."""
        rng = self.rng(purpose)
        rounds = [rng.permutation(SCENES) for _ in range(-(-count // SCENES))]
        return [int(scene) for scene in np.concatenate(rounds)[:count]]

    def shifted(self, scene: int, shift: int = 0, draw: int = 0) -> Picture:
        """A scene's picture under one of the shifts."""
        name = f"{scene}/{draw}"
        return corrupt(
            self.pictures[scene], self.shifts[shift], SEVERITY, seed=self.seed, item_id=name
        )

    def aimed(self, pictures: Sequence[Picture], targets: torch.Tensor, steps: int = 20) -> Any:
        """Pictures changed by at most 16 of 255, so that their vectors come near to targets."""
        device = self.encoder.device
        start = torch.tensor(np.stack(pictures), dtype=torch.float32, device=device)
        moved = start.clone()
        for _ in range(steps):
            moved.requires_grad_(True)
            near = normalize(self.encoder.tower(moved).float(), dim=1) * targets.to(device)
            (slope,) = torch.autograd.grad(near.sum(), moved)
            moved = (moved.detach() + 2 * slope.sign()).clamp(start - 16, start + 16)
            moved = moved.clamp(0, 255)
        return list(moved.round().byte().cpu().numpy())


def clean(world: World, batches: int) -> Iterator[Asked]:
    """Nothing is wrong."""
    for scene in world.order("clean", BATCH * batches):
        yield Asked(world.pictures[scene], scene)


def repeated(world: World, batches: int) -> Iterator[Asked]:
    """One ordinary picture, asked for again and again."""
    scene = REPEATED if world.seed == 0 else world.order("repeated", 1)[0]
    yield from [Asked(world.pictures[scene], scene)] * (BATCH * batches)


def alternating(world: World, batches: int) -> Iterator[Asked]:
    """Two pictures in turn."""
    for scene in world.order("alternating", 2) * (BATCH * batches // 2):
        yield Asked(world.pictures[scene], scene)


def garbage(world: World, batches: int) -> Iterator[Asked]:
    """Pictures of pure noise, then real queries under the first shift."""
    rng, half = world.rng("garbage"), BATCH * batches // 2
    for _ in range(half):
        yield Asked(rng.integers(256, size=(64, 64, 3), dtype=np.uint8), counted=False)
    for scene in world.order("garbage", half):
        yield Asked(world.shifted(scene), scene)


def in_order(world: World, batches: int) -> Iterator[Asked]:
    """Sorted by content, under the first shift."""
    texts = [captions(scene)[0] for scene in scenes(world.split, SCENES)]
    order = world.order("in_order", min(SCENES, BATCH * batches))
    for scene in sorted(order, key=texts.__getitem__):
        yield Asked(world.shifted(scene), scene)


def changing(world: World, batches: int) -> Iterator[Asked]:
    """Another shift every five batches."""
    for row, scene in enumerate(world.order("changing", BATCH * batches)):
        shift = row // (5 * BATCH) % len(world.shifts)
        yield Asked(world.shifted(scene, shift, row), scene)


def poisoned(world: World, batches: int, shifted: bool = False) -> Iterator[Asked]:
    """A fifth of the queries is changed to find one and the same caption; others are clean."""
    target = world.gallery.vectors[CAPTIONS * world.order("target", 1)[0], 0]
    for start in range(batches):
        rows = world.order(f"poisoned {start}", BATCH)
        some, others = rows[: BATCH // 5], rows[BATCH // 5 :]
        poison = world.aimed([world.pictures[scene] for scene in some], target[None])
        yield from (Asked(picture, counted=False) for picture in poison)
        for scene in others:
            picture = world.shifted(scene, draw=start) if shifted else world.pictures[scene]
            yield Asked(picture, scene)


def poisoned_shifted(world: World, batches: int) -> Iterator[Asked]:
    """The same, and the others are under the first shift."""
    yield from poisoned(world, batches, shifted=True)


def unanswerable(world: World, batches: int) -> Iterator[Asked]:
    """Half of the queries have no right candidate, all are under the first shift."""
    for row, scene in enumerate(world.order("unanswerable", BATCH * batches)):
        if row % 2:
            yield Asked(world.shifted(scene), scene)
        else:
            yield Asked(world.shifted(SCENES + scene), counted=False)


def diverse(world: World, batches: int) -> Iterator[Asked]:
    """Another shift for each query: 10,000 of them, where there are 40 batches of the others."""
    rng, count = world.rng("diverse"), 10_000 * batches // 40
    for row, scene in enumerate(world.order("diverse", count)):
        yield Asked(world.shifted(scene, int(rng.integers(len(world.shifts))), row), scene)


def drifting(world: World, batches: int) -> Iterator[Asked]:
    """From clean to the first shift, slowly, and back."""
    count = BATCH * batches
    for row, scene in enumerate(world.order("drifting", count)):
        share = 1 - abs(2 * row / count - 1)
        mixed = (1 - share) * world.pictures[scene] + share * world.shifted(scene)
        yield Asked(mixed.round().astype(np.uint8), scene)


def bots(world: World, batches: int) -> Iterator[Asked]:
    """Nine of ten queries are bots repeating twenty; the others are real, under the first shift."""
    rng, bots = world.rng("bots"), [world.shifted(s) for s in world.order("bots", BOTS)]
    for row, scene in enumerate(world.order("real", BATCH * batches)):
        if rng.random() < BOT_SHARE:
            yield Asked(bots[int(rng.integers(BOTS))], counted=False)
        else:
            yield Asked(world.shifted(scene, draw=row), scene)


def aimed(world: World, batches: int) -> Iterator[Asked]:
    """Half of the queries is aimed at eight scenes that are not theirs; an eighth asks for those.

    Only the latter count: near to many queries that are answered otherwise, their candidates look
    like hubs. All real queries are under the third shift, which is a mild one.
    """
    targets = world.order("targets", TARGETS)
    for start in range(batches):
        rows = world.order(f"aimed {start}", BATCH)
        wanted = [targets[row % TARGETS] for row in range(BATCH // 2)]
        towards = torch.stack([world.gallery.vectors[CAPTIONS * one, 0] for one in wanted])
        attack = world.aimed([world.pictures[row] for row in rows[: BATCH // 2]], towards, 3)
        yield from (Asked(picture, counted=False) for picture in attack)
        for scene in targets:
            yield Asked(world.shifted(scene, 2, start), scene)
        for scene in rows[BATCH // 2 + TARGETS :]:
            yield Asked(world.shifted(scene, 2, start), scene, counted=False)


STREAMS: dict[str, Callable[[World, int], Iterator[Asked]]] = {
    "clean": clean,
    "repeated": repeated,
    "garbage": garbage,
    "in order": in_order,
    "changing": changing,
    "poisoned": poisoned,
    "poisoned, shifted": poisoned_shifted,
    "unanswerable": unanswerable,
    "diverse": diverse,
    "alternating": alternating,
    "drifting": drifting,
    "bots": bots,
    "aimed": aimed,
}
"""Each makes so many batches of queries, and its docstring says what is wrong with them."""
