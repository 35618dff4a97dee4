"""Measure nlpaug's character error rates per level, for the tests of the text corruptions.

    pip install nlpaug==1.1.11
    python tools/make_nlpaug_reference.py tests/data/nlpaug_error_rates.json

Captions that nlpaug would space anew ("T-shirt" to "T - shirt") are left out: what is compared is
the error that a corruption makes, not what splitting and joining does to the rest.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from statistics import fmean

import nlpaug
import nlpaug.augmenter.char as nac
from nlpaug.util.text.tokenizer import Tokenizer

TESTS = Path(__file__).parents[1] / "tests" / "lab" / "corruptions"
sys.path.insert(0, str(TESTS))

from edit_distance import error_rate  # noqa: E402
from photo_captions import WRITTEN, generated  # noqa: E402

ACTIONS = {
    "character_insert": "insert",
    "character_replace": "substitute",
    "character_swap": "swap",
    "character_delete": "delete",
}
LEVELS = range(1, 8)
DRAWS = 20


def augmenter(name: str, level: int) -> nac.CharAugmenter:
    """The augmenter with the parameters of the published scripts."""
    if name == "ocr":
        return nac.OcrAug(aug_word_p=0.05 * level)
    return nac.RandomCharAug(ACTIONS[name], aug_word_p=0.05 * level)


def measured(name: str, level: int, captions: list[str]) -> float:
    """Mean character error rate over captions and draws."""
    corrupt = augmenter(name, level)
    drawn = ((caption, corrupt.augment(caption)[0]) for caption in captions for _ in range(DRAWS))
    return fmean(error_rate(caption, corrupted) for caption, corrupted in drawn)


if __name__ == "__main__":
    random.seed(0)
    captions = [
        caption
        for caption in [*WRITTEN, *generated(280)]
        if Tokenizer.reverse_tokenizer(Tokenizer.tokenizer(caption)) == caption
    ]
    rates = {
        name: {str(level): round(measured(name, level, captions), 5) for level in LEVELS}
        for name in ("ocr", *ACTIONS)
    }
    reference = {"nlpaug": nlpaug.__version__, "captions": len(captions), "rates": rates}
    Path(sys.argv[1]).write_text(json.dumps(reference, indent=1) + "\n", encoding="utf-8")
    print(f"{len(captions)} captions, {DRAWS} draws each: {rates}")
