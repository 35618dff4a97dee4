"""Misspelt names in German, Greek and Russian: `python -m training.real.other_scripts MODEL`.

Candidates are the names of languages and territories in each language (Unicode CLDR, from the
package babel), queries are the same names with typos in 10 % of their letters. The table goes to
docs/results/real/other-scripts.txt, which the page of the real sets holds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import queryshift as qs
from queryshift.encoders.encoder import Encoder
from queryshift.lab.corruptions import corrupt, find
from queryshift.lab.evaluation.stream_evaluation import run
from training.comparison.tables import table
from training.real.lexical import Speller

LANGUAGES = {"de": "German", "el": "Greek", "ru": "Russian"}
RESULT = Path(__file__).parents[2] / "docs" / "results" / "real" / "other-scripts.txt"
SEVERITY, BATCH, SEED = 2, 64, 0


def names(language: str) -> list[str]:
    """Names of languages and territories in a language, each once."""
    from babel import Locale

    locale = Locale(language)
    return list(dict.fromkeys([*locale.languages.values(), *locale.territories.values()]))


def recalls(encoder: Encoder, candidates: list[str]) -> dict[str, float]:
    """Recall at 1 of each row, in percent."""
    gallery = qs.Gallery.build(encoder, candidates)
    typos = find("text", "typos")
    asked = [corrupt(name, typos, SEVERITY, seed=SEED, item_id=name) for name in candidates]
    speller = Speller(candidates)
    corrected = [speller.corrected(text) for text in asked]
    still = {"method": qs.Frozen(), "guard": None}
    rows = {
        "frozen": (qs.Session(encoder, gallery, **still), asked),
        "frozen+hubs": (qs.Session(encoder, gallery, hubs=qs.Hubs(), **still), asked),
        "default": (qs.Session(encoder, gallery), asked),
        "spelling+frozen": (qs.Session(encoder, gallery, **still), corrected),
        "spelling+default": (qs.Session(encoder, gallery), corrected),
    }
    matches = [(place,) for place in range(len(candidates))]
    found = {
        name: run(session, texts, matches, SEED, BATCH).all_ranks[:, 0]
        for name, (session, texts) in rows.items()
    }
    return {name: 100 * float((ranks == 1).float().mean()) for name, ranks in found.items()}


def main(model: str) -> None:
    torch.set_num_threads(1)
    encoder = qs.load(model, precision="float32")["text"]
    found = {language: names(language) for language in LANGUAGES}
    measured = {language: recalls(encoder, own) for language, own in found.items()}
    rows = [
        [
            LANGUAGES[language],
            str(len(found[language])),
            *(f"{value:.1f}" for value in own.values()),
        ]
        for language, own in measured.items()
    ]
    head = ["language", "names", *next(iter(measured.values()))]
    RESULT.write_text(table(rows, head) + "\n", encoding="utf-8")
    print(RESULT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(sys.argv[1])
