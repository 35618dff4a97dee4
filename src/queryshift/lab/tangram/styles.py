"""Looks of the world: colours, papers, strokes and words of scenes and captions."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

RGB = tuple[int, ...]
VOCABULARY = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))

LOOKS = tomllib.loads(Path(__file__).with_name("looks.toml").read_text(encoding="utf-8"))
INKS, PAPERS = (
    {name: tuple(values) for name, values in LOOKS[kind].items()} for kind in ("inks", "papers")
)


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
    return {
        name: tuple(
            round((1 - share) * own + share * other) for own, other in zip(rgb, tint, strict=True)
        )
        for name, rgb in colours.items()
    }


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


def _domain(name: str, tint: RGB, texture: str, stroke: float, fabric: Sequence[str]) -> Style:
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


DOMAINS = tuple(_domain(name, **look) for name, look in LOOKS["domains"].items())
STYLES: Mapping[str, Style] = {style.name: style for style in (PLAIN, CRAYON, *DOMAINS)}
