"""`queryshift corrupt`: shifted queries from files, the same ones again, or a contact sheet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from queryshift.lab.corruptions.names import MODALITIES, by_category

from .options import CONTINUE, COUNT, PATH, Group, interruptible

if TYPE_CHECKING:
    from queryshift.lab.corruptions.files import Summary

_FOLDER = click.Path(resolve_path=True)  # the manifest must name it from anywhere
_UNREAD = (".gif", ".heic", ".heif", ".avif", ".svg")  # image formats that are not read
_SHARED = (
    click.Option(["--severity"], type=int, help="1 to 5.  [default: 5]"),
    click.Option(["--seed"], type=int, default=0, show_default=True, help="Random seed."),
    click.Option(
        ["--layout"],
        default="plain",
        show_default=True,
        help="Folders as in published sets: imagenet_c, coco, flickr or read.",
    ),
    click.Option(
        ["--base"],
        type=PATH,
        help="A folder above IN: ids and output paths start there.",
    ),
    click.Option(["--jobs"], type=COUNT, help="Processes.  [default: at most one per processor]"),
)
_PRESET = click.Option(["--preset"], help="imagenet_c (default) or mm_robustness.")
_TEXTURES = click.Option(["--textures"], type=_FOLDER, help="A folder of photographs, for frost.")
_CLOUDS = click.Option(
    ["--clouds"],
    type=click.Choice(["1024", "512"]),
    help="Side of the fog's map with mm_robustness: 1024 for COCO (default), 512 for Flickr.",
)
_OPTIONS: dict[str, tuple[click.Option, ...]] = {
    "image": (_PRESET, _TEXTURES, _CLOUDS),
    "video": (_PRESET, _TEXTURES, _CLOUDS),
    "audio": (
        click.Option(["--noise"], type=_FOLDER, help="A folder of recordings: rain.wav, crowd/..."),
        click.Option(["--scale"], help="snr (default: 20, 15, 10, 5, 0 dB) or read, as published."),
    ),
    "text": (
        click.Option(
            ["--preset"], help="mm_robustness: with the side effects of the published scripts."
        ),
        click.Option(
            ["--level"], help="1 to 7, as published; levels 3 to 7 are severities 1 to 5."
        ),
        click.Option(["--backend"], help="For sentence corruptions: rules (default) or models."),
        click.Option(
            ["--models"], help="Names or folders of the models, with commas between them."
        ),
    ),
}
_FILES = {
    "image": "IN is an image or a folder of images.",
    "text": 'IN is a .txt with one caption per line, a .json of records with a "caption", '
    "or a folder of such files.",
    "video": "IN is a folder with one folder of frames per clip, or with frame_0/, frame_1/ ... "
    "as published; or video files, of which ten frames are taken.",
    "audio": "IN is an audio file or a folder of audio files; they become mono.",
}


@click.group(cls=Group)
def command() -> None:
    """Corrupt files to make shifted queries.

    \b
    $ queryshift corrupt image fog --severity 3 photos/ foggy/
    $ queryshift corrupt again foggy/manifest.jsonl photos/ foggy-again/
    $ queryshift corrupt sheet photo.jpg
    """


def _modality(name: str) -> click.Command:
    """The command that corrupts files of one modality."""

    def run(source: Path, target: Path, **given: Any) -> None:
        from queryshift.lab.corruptions.files import Recipe, corrupt_files

        fixed = {key: given.pop(key) for key in ("corruption", "severity", "seed")}
        how = {key: given.pop(key) for key in ("layout", "jobs", "base")}
        options = {key: value for key, value in given.items() if value is not None}
        recipe = Recipe.asked(name, **fixed, options=options)
        with interruptible(lambda: CONTINUE):
            summary = corrupt_files(recipe, source, target, **how)
        _print_summary(summary)
        _warn_left_out(source, name)

    table = by_category(name)
    known = "; ".join(f"{family}: {', '.join(names)}" for family, names in table.items())
    return click.Command(
        name,
        callback=run,
        params=[
            click.Argument(["corruption"]),
            click.Argument(["source"], metavar="IN", type=PATH),
            click.Argument(["target"], metavar="OUT", type=PATH),
            *_SHARED,
            *_OPTIONS[name],
        ],
        help=f"Corrupt {name} files.\n\n{_FILES[name]}\n\nCORRUPTION is one of: {known}.",
    )


for _name in MODALITIES:
    command.add_command(_modality(_name))


@command.command("again")
@click.argument("manifest", type=PATH)
@click.argument("source", metavar="IN", type=PATH)
@click.argument("target", metavar="OUT", type=PATH)
@click.option("--jobs", type=COUNT, help="Processes.  [default: at most one per processor]")
def _again(manifest: Path, source: Path, target: Path, jobs: int | None) -> None:
    """Make the files of MANIFEST again from the clean files in IN, and compare their hashes."""
    from queryshift.lab.corruptions.files import make_again

    with interruptible(lambda: CONTINUE):
        summary = make_again(manifest, source, target, jobs)
    _print_summary(summary)


@command.command("sheet")
@click.argument("photo", type=PATH)
@click.argument("target", metavar="[OUT]", type=PATH, required=False)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option("--preset", default="imagenet_c", show_default=True, help="Or mm_robustness.")
def _sheet(photo: Path, target: Path | None, seed: int, preset: str) -> None:
    """Draw PHOTO with all 16 image corruptions at all 5 severities in one image.

    The photo is cropped to its middle square, of the size that models see.
    """
    from queryshift.lab.corruptions.contact_sheet import write_sheet

    sheet = target or Path(f"{photo.stem}-sheet.jpg")
    width, height = write_sheet(photo, sheet, seed, preset)
    click.echo(f"{sheet}: {width} x {height} pixels")


def _warn_left_out(source: Path, modality: str) -> None:
    """Name images in formats that are not read: they were left out."""
    images = modality in ("image", "video") and source.is_dir()
    files = source.rglob("*") if images else ()
    left_out = sorted(file.name for file in files if file.suffix.lower() in _UNREAD)
    if left_out:
        more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        click.echo(f"left out, a format that is not read: {left_out[0]}{more}", err=True)


def _print_summary(summary: Summary) -> None:
    for problem in summary.problems:
        click.echo(problem, err=True)
    failed = f", {len(summary.problems)} failed" if summary.problems else ""
    where = f": {summary.manifest}" if summary.manifest.exists() else ""
    click.echo(f"{summary.made} made, {summary.kept} already there{failed}{where}")
    if summary.captions:
        click.echo(f"{summary.changed} of {summary.captions} captions changed")
    if summary.problems:
        raise SystemExit(1)
