"""Looks of the world: colours, papers, strokes and words of scenes and captions."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

RGB = tuple[int, int, int]
VOCABULARY = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))

INKS: Mapping[str, RGB] = {
    "red": (214, 39, 40),
    "orange": (245, 130, 30),
    "yellow": (240, 205, 20),
    "green": (40, 150, 50),
    "teal": (20, 175, 180),
    "blue": (35, 80, 210),
    "purple": (125, 50, 170),
    "pink": (240, 95, 170),
    "brown": (125, 75, 40),
    "black": (25, 25, 30),
}
PAPERS: Mapping[str, RGB] = {
    "white": (248, 248, 246),
    "grey": (188, 190, 194),
    "cream": (244, 232, 200),
    "mint": (200, 235, 212),
    "sky": (196, 220, 244),
    "lilac": (222, 206, 238),
}


@dataclass(frozen=True)
class Style:
    """One look. `words` stand in for the usual ones, `openings` begin its captions."""

    name: str
    inks: Mapping[str, RGB] = field(repr=False)
    papers: Mapping[str, RGB] = field(repr=False)
    texture: str = "none"
    contrast: float = 0.0
    stroke: float = 0.0
    wobble: float = 0.0
    words: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
    openings: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash(self.name)


def _towards(colours: Mapping[str, RGB], tint: RGB, share: float) -> dict[str, RGB]:
    """Every colour moved the same share of the way to `tint`."""
    moved = {}
    for name, rgb in colours.items():
        red, green, blue = (
            round((1 - share) * own + share * other) for own, other in zip(rgb, tint, strict=True)
        )
        moved[name] = (red, green, blue)
    return moved


PLAIN = Style("plain", INKS, PAPERS)

CRAYON = Style(
    "crayon",
    inks=_towards(INKS, (150, 120, 90), 0.15),
    papers=_towards(PAPERS, (120, 110, 105), 0.12),
    texture="grain",
    contrast=0.05,
    stroke=0.8,
    wobble=0.5,
    words=VOCABULARY["crayon"],
    openings=("crayoned by hand:", "on the nursery wall hangs", "sketchily done,"),
)


def _domain(name: str, tint: RGB, texture: str, stroke: float, fabric: tuple[str, str]) -> Style:
    return Style(
        name,
        inks=_towards(INKS, tint, 0.28),
        papers=_towards(PAPERS, tint, 0.42),
        texture=texture,
        contrast=0.06,
        stroke=stroke,
        words={"solid": (fabric[1],)},
        openings=(f"{fabric[0]} {name} featuring", f"new in {name}:", f"{name}, {fabric[0]},"),
    )


DOMAINS: tuple[Style, ...] = (
    _domain("cushions", (170, 90, 80), "weave", 0.0, ("velvet", "tufted")),
    _domain("mugs", (90, 110, 150), "shine", 1.2, ("glazed", "enamelled")),
    _domain("scarves", (150, 60, 120), "stripes", 0.0, ("woollen", "knitted")),
    _domain("tiles", (70, 140, 140), "checks", 1.2, ("ceramic", "vitrified")),
    _domain("wallpapers", (120, 150, 90), "stripes", 0.0, ("matte", "printed")),
    _domain("aprons", (200, 170, 110), "weave", 0.8, ("linen", "stitched")),
    _domain("badges", (60, 60, 70), "shine", 1.6, ("metal", "embossed")),
    _domain("stamps", (160, 140, 170), "grain", 0.8, ("vintage", "engraved")),
    _domain("kites", (90, 160, 220), "shine", 0.0, ("nylon", "glued")),
    _domain("rugs", (140, 100, 60), "checks", 0.0, ("jute", "braided")),
    _domain("socks", (100, 90, 140), "grain", 0.0, ("cotton", "ribbed")),
    _domain("lampshades", (240, 200, 90), "shine", 0.8, ("paper", "pleated")),
)
STYLES: Mapping[str, Style] = {style.name: style for style in (PLAIN, CRAYON, *DOMAINS)}
