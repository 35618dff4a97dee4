"""The contact sheet: one photo under every image corruption at every severity, in one image."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps

from queryshift.errors import BadInput
from queryshift.media.images import read_image
from queryshift.support.progress import track

from .corruption import SEVERITIES
from .files.corrupt_item import write_whole
from .files.input_files import encode_image
from .files.recipe import USUAL_PRESET, Recipe
from .image.pixels import rgb
from .names import NAMES

TILE = 224  # the input size of models, for which the severities were made
GAP, LABEL, LINE = 6, 180, 40
INK, GREY, BORDER, PAPER = "#1a1a1a", "#6b6b6b", "#c4c4c4", "#ffffff"
LEFT, RIGHT = ("noise", "blur"), ("weather", "digital")

_STEP = TILE + GAP
_HALF = LABEL + len(SEVERITIES) * _STEP + 2 * GAP
_TOP = GAP + TILE + LINE  # below the clean photo and the severities' numbers


def write_sheet(
    photo: Path, target: Path, seed: int = 0, preset: str = USUAL_PRESET
) -> tuple[int, int]:
    """Write the contact sheet of a photo as JPEG or PNG; gives its width and height."""
    suffix = target.suffix.lower()
    if suffix not in (".jpg", ".jpeg", ".png"):
        raise BadInput(f'the sheet "{target}" must be named .jpg or .png.')
    if target.resolve() == photo.resolve():
        raise BadInput(f'the sheet would overwrite the photo "{photo}": name another file.')
    sheet = contact_sheet(photo, seed, preset)
    write_whole(target, encode_image(sheet, suffix, quality=90))
    return sheet.size


def contact_sheet(photo: Path, seed: int = 0, preset: str = USUAL_PRESET) -> Image.Image:
    """A labelled image of all 16 corruptions at the five severities, below the clean photo."""
    clean = ImageOps.fit(Image.fromarray(rgb(read_image(photo))), (TILE, TILE))
    rows = [
        (half * _HALF + GAP, _TOP + row * _STEP, family, name)
        for half, families in enumerate((LEFT, RIGHT))
        for row, (family, name) in enumerate(_names(families))
    ]
    height = max(top for _, top, _, _ in rows) + _STEP
    sheet = Image.new("RGB", (2 * _HALF, height), PAPER)
    drawn = f"preset {preset}, seed {seed}, the same draw at every severity"
    _draw_header(sheet, clean, f"{photo.name}, its middle square, {drawn}")
    for left, top, family, name in track(rows, "drawing"):
        _write(sheet, (left, top + TILE // 2 - 28), family, 18, GREY)
        _write(sheet, (left, top + TILE // 2 - 6), name, 22, INK)
        for column, severity in enumerate(SEVERITIES):
            recipe = Recipe("image", name, severity, seed, {"preset": preset})
            tile = recipe.apply(clean, photo.name, common=True)
            _paste(sheet, tile.resize(clean.size), (left + LABEL + column * _STEP, top))
    return sheet


def _names(families: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(family, name) for family in families for name in NAMES["image"][family]]


def _draw_header(sheet: Image.Image, clean: Image.Image, caption: str) -> None:
    """The clean photo with a title, and the severities above their columns."""
    _paste(sheet, clean, (GAP + LABEL, GAP))
    _write(sheet, (GAP, GAP + TILE // 2 - 6), "clean", 22, INK)
    beside = GAP + LABEL + TILE + 4 * GAP
    _write(sheet, (beside, GAP + 60), "One photo, 16 corruptions, 5 severities", 40, INK)
    _write(sheet, (beside, GAP + 120), caption, 22, GREY)
    for half in (0, 1):
        for column, severity in enumerate(SEVERITIES):
            left = half * _HALF + GAP + LABEL + column * _STEP
            _write(sheet, (left, _TOP - LINE + 8), f"severity {severity}", 22, GREY)


def _paste(sheet: Image.Image, tile: Image.Image, place: tuple[int, int]) -> None:
    """A tile with a thin border, which shows where a white one ends."""
    left, top = place
    sheet.paste(tile, place)
    around = (left - 1, top - 1, left + tile.width, top + tile.height)
    ImageDraw.Draw(sheet).rectangle(around, outline=BORDER)


def _write(sheet: Image.Image, place: tuple[int, int], text: str, size: int, ink: str) -> None:
    ImageDraw.Draw(sheet).text(place, text, fill=ink, font=ImageFont.load_default(size))
