"""Small copies of Flickr8k's pictures: `python -m training.photographs.shrink FLICKR8K SMALL`.

Their shorter side is 192 pixels, their proportions at most 4 to 3 (what is more is cut off both
ends), and they are kept as WebP under their own names; the texts are copied beside them.
"""

from __future__ import annotations

import argparse
import shutil
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from PIL import Image

from queryshift.lab.datasets import DATASETS
from queryshift.lab.datasets.flickr8k import LISTS, TEXTS, TOKENS
from queryshift.lab.datasets.reading.reader import find_file, find_folder

SHORT, QUALITY = 192, 72
LONGEST = round(SHORT * 4 / 3)
FOLDERS = DATASETS["flickr8k"].folders


def shrunk(image: Image.Image) -> Image.Image:
    """The picture with its shorter side of 192 pixels, its longer of at most 256."""
    width, height = image.size
    scale = SHORT / min(width, height)
    size = [max(SHORT, round(side * scale)) for side in (width, height)]
    over = [max(side - LONGEST, 0) // 2 for side in size]
    far = [start + min(side, LONGEST) for start, side in zip(over, size, strict=True)]
    return image.resize((size[0], size[1]), Image.Resampling.BICUBIC).crop((*over, *far))


def shrink(file: Path, out: Path) -> None:
    """Write one small picture."""
    with Image.open(file) as image:
        image.draft("RGB", (2 * SHORT, 2 * SHORT))
        small = shrunk(image.convert("RGB"))
    small.save(out / file.name, "WEBP", quality=QUALITY, method=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("flickr8k", type=Path)
    parser.add_argument("small", type=Path)
    options = parser.parse_args()
    pictures = options.small / FOLDERS[0]
    pictures.mkdir(parents=True, exist_ok=True)
    for name in (TOKENS, *LISTS.values()):
        text = find_file(options.flickr8k, *(f"{folder}/{name}".lstrip("/") for folder in TEXTS))
        shutil.copyfile(text, options.small / name)
    files = sorted(find_folder(options.flickr8k, *FOLDERS).glob("*.jpg"))
    with ProcessPoolExecutor() as processes:
        list(processes.map(partial(shrink, out=pictures), files, chunksize=64))
    print(f"{len(files):,} pictures in {pictures}")


if __name__ == "__main__":
    main()
