"""Files made wrong on purpose: bits flipped, parts changed."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile
from queryshift.support.tensor_files import read, write


def rewritten(path: Path, kind: str, change: Callable[[dict, dict], Any]) -> None:
    """The file with its description or its tensors changed, and a checksum that is right."""
    tensors, about = read(path, kind, mapped=False)
    change(about, tensors)
    write(path, kind, tensors, about)


def flipped(whole: bytes, count: int, seed: int) -> Iterator[bytes]:
    """The bytes again and again, each time with one bit flipped, half of them in the header."""
    draw, header = random.Random(seed), 8 + int.from_bytes(whole[:8], "little")
    for number in range(count):
        place = draw.randrange(header if number % 2 else len(whole))
        wrong = bytearray(whole)
        wrong[place] ^= 1 << draw.randrange(8)
        yield bytes(wrong)


def loads_otherwise(path: Path, count: int, seed: int, load: Callable[[Path], Any], same) -> int:
    """How many of so many flipped files load with other content; others are refused in words."""
    whole, kept, differing = path.read_bytes(), load(path), 0
    for wrong in flipped(whole, count, seed):
        path.write_bytes(wrong)
        try:
            differing += not same(load(path), kept)
        except BadFile:
            continue
    path.write_bytes(whole)
    return differing
