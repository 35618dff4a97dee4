"""Scenes: two to four objects of a shape, colour, size, fill and place, on a background."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from . import draw_shapes
from .styles import CRAYON, DOMAINS, INKS, PAPERS, PLAIN, Style
from .worlds import belongs, distinct, generator, take

SHAPES = tuple(draw_shapes.DISTANCES)
COLOURS = tuple(INKS)
RADII = {"small": 5.5, "medium": 8.0, "large": 10.5}
SIZES = tuple(RADII)
FILLS = ("solid", "outlined", "striped", "dotted")
ROWS, COLUMNS = ("top", "middle", "bottom"), ("left", "centre", "right")
PLACES = tuple(f"{row} {column}" for row in ROWS for column in COLUMNS)
BACKGROUNDS = tuple(PAPERS)
VALUES = {"shape": SHAPES, "colour": COLOURS, "size": SIZES, "fill": FILLS, "place": PLACES}

_CELL = draw_shapes.SIDE / 3


@dataclass(frozen=True, slots=True)
class Item:
    """One object of a scene; `nudge` moves it a little off the middle of its place."""

    shape: str
    colour: str
    size: str
    fill: str
    place: str
    nudge: tuple[int, int] = (0, 0)

    @property
    def centre(self) -> tuple[float, float]:
        """Where the object's middle is, in pixels from the top left."""
        row, column = divmod(PLACES.index(self.place), 3)
        return (column + 0.5) * _CELL + self.nudge[0], (row + 0.5) * _CELL + self.nudge[1]

    def altered(self, attribute: str, value: str) -> Item:
        """The object with one attribute changed."""
        return replace(self, **{attribute: value})  # type: ignore[arg-type]

    def content(self) -> str:
        """What the object is, without the nudge."""
        return f"{self.shape} {self.colour} {self.size} {self.fill} {self.place}"


@dataclass(frozen=True, slots=True)
class Scene:
    """An image that can be drawn and described, in one of the styles."""

    items: tuple[Item, ...]
    background: str
    style: Style = PLAIN

    def content(self) -> str:
        """What the scene shows, whatever the style and the order; worlds are told apart by it."""
        return "; ".join([self.background, *sorted(item.content() for item in self.items)])

    def styled(self, style: Style) -> Scene:
        """The same scene in another look."""
        return replace(self, style=style)

    def image(self) -> draw_shapes.Pixels:
        """The scene as a 64 x 64 image."""
        style = self.style
        canvas = draw_shapes.blank(style.papers[self.background], style)
        for item in self.items:
            centre, radius = item.centre, RADII[item.size]
            draw_shapes.paint(
                canvas, item.shape, centre, radius, (style.inks[item.colour], item.fill)
            )
            if style.stroke:
                draw_shapes.trace(canvas, item.shape, centre, radius, style)
        return draw_shapes.finish(canvas)


def scenes(split: str, count: int, seed: int = 0) -> list[Scene]:
    """The first `count` scenes of one world, all different."""
    rng = generator("scenes", split, seed)
    return take(count, distinct(lambda: draw_scene(rng, split), Scene.content))


def crayon_scenes(count: int, seed: int = 0, split: str = "test") -> list[Scene]:
    """Scenes in the second look, for a shift of queries and gallery at once."""
    return [scene.styled(CRAYON) for scene in scenes(split, count, seed)]


def product_scenes(count: int, seed: int = 0, split: str = "test") -> list[Scene]:
    """Scenes that each come from one of many product-like domains, mixed."""
    rng = generator("products", split, seed)
    return [scene.styled(rng.choice(DOMAINS)) for scene in scenes(split, count, seed)]


def draw_scene(rng: Random, split: str) -> Scene:
    """One random scene of a world."""
    while True:
        places = rng.sample(PLACES, rng.choice((2, 3, 3, 4)))
        scene = Scene(tuple(draw_item(rng, place) for place in places), rng.choice(BACKGROUNDS))
        if belongs(scene.content(), split):
            return scene


def draw_item(rng: Random, place: str) -> Item:
    """One random object at a place."""
    nudge = (rng.randrange(-2, 3), rng.randrange(-2, 3))
    return Item(
        rng.choice(SHAPES), rng.choice(COLOURS), rng.choice(SIZES), rng.choice(FILLS), place, nudge
    )
