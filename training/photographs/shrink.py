"""Small copies of Flickr8k's pictures: `python -m training.photographs.shrink FLICKR8K SMALL`.

Their shorter side is 192 pixels (`--short`), their proportions at most 4 to 3 (what is more is cut
off both ends). They are kept as WebP under their own names; the texts are copied beside them.
"""

from __future__ import annotations

import argparse
import shutil
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from PIL import Image

from queryshift.lab.datasets.flickr8k import IMAGES, LISTS, TEXTS, TOKENS
from queryshift.lab.datasets.reading.reader import find_file, find_folder

SHORT, QUALITY = 192, 72


def shrunk(image: Image.Image, short: int = SHORT) -> Image.Image:
    """The picture with its shorter side of `short` pixels, its longer of at most 4/3 of them."""
    longest = round(short * 4 / 3)
    width, height = image.size
    scale = short / min(width, height)
    size = [max(short, round(side * scale)) for side in (width, height)]
    over = [max(side - longest, 0) // 2 for side in size]
    far = [start + min(side, longest) for start, side in zip(over, size, strict=True)]
    return image.resize((size[0], size[1]), Image.Resampling.BICUBIC).crop((*over, *far))


def shrink(file: Path, out: Path, short: int, quality: int) -> None:
    """Write one small picture."""
    with Image.open(file) as image:
        image.draft("RGB", (2 * short, 2 * short))
        small = shrunk(image.convert("RGB"), short)
    small.save(out / file.name, "WEBP", quality=quality, method=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("flickr8k", type=Path)
    parser.add_argument("small", type=Path)
    parser.add_argument("--short", type=int, default=SHORT, help="pixels of the shorter side")
    parser.add_argument("--quality", type=int, default=QUALITY)
    options = parser.parse_args()
    pictures = options.small / IMAGES[0]
    pictures.mkdir(parents=True, exist_ok=True)
    for name in (TOKENS, *LISTS.values()):
        text = find_file(options.flickr8k, *(f"{folder}/{name}".lstrip("/") for folder in TEXTS))
        shutil.copyfile(text, options.small / name)
    files = sorted(find_folder(options.flickr8k, *IMAGES).glob("*.jpg"))
    with ProcessPoolExecutor() as processes:
        one = partial(shrink, out=pictures, short=options.short, quality=options.quality)
        list(processes.map(one, files, chunksize=64))
    print(f"{len(files):,} pictures in {pictures}")


if __name__ == "__main__":
    main()
