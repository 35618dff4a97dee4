"""Print the before-and-after pairs of docs/corruptions-text.md, drawn at random.

    python tools/make_text_pairs.py

They are captions of tests/data/photo_captions.txt that the rules change; after a change of the
rules, put the output in place of the table in the docs (a test compares the two).
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from queryshift.lab.corruptions import text

CAPTIONS = Path(__file__).parents[1] / "tests" / "data" / "photo_captions.txt"
COUNTS = {"formal": 13, "casual": 12, "passive": 12, "active": 3}


def pairs(name: str, count: int, draw: Random) -> list[tuple[str, str]]:
    """`count` captions that the rules change, and what becomes of them."""
    rule = text.sentence(name)
    captions = CAPTIONS.read_text(encoding="utf-8").splitlines()
    both = [(caption, rule(caption, 5, None)) for caption in captions]
    return draw.sample([pair for pair in both if pair[0] != pair[1]], count)


if __name__ == "__main__":
    draw = Random(2026)
    print("| | before | after |\n|---|---|---|")
    for name, count in COUNTS.items():
        for before, after in pairs(name, count, draw):
            print(f"| {name} | {before} | {after} |")
