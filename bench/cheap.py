"""What a batch costs with every method, in plain forwards: tangram's pictures, 10,000 captions.

    python bench/cheap.py [--rounds 4] [--out FILE]

Every round asks another batch of 64 noisy pictures, since exact repeats cost hub correction
nothing; the row is the quickest round over the quickest plain forward of the same batches.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measuring import timed

from queryshift import EATA, METHODS, REST, SHOT, Frozen, Gallery, Hubs, Session
from queryshift.lab.corruptions import find
from queryshift.lab.datasets.tangram import tangram
from queryshift.lab.evaluation.stream_evaluation import shifted
from queryshift.models import load

Make = Callable[..., Session]
OWN = {"eata": EATA(redundancy=2)}  # a batch that is skipped would cost nothing


def rows(make: Make) -> dict[str, Session]:
    """A session for each row: methods bare, as in the comparison, and the default as it is."""
    bare = partial(make, guard=None)
    named = {name: bare(OWN.get(name) or METHODS[name]()) for name in METHODS if name != "infomax"}
    return named | {
        "frozen+hubs": bare(Frozen(), hubs=Hubs()),
        "rest+hubs": bare(REST(), hubs=Hubs()),
        "shot+hubs": bare(SHOT(), hubs=Hubs()),
        "rest, one step+hubs": bare(REST(), hubs=Hubs(), steps=1),
        "default": make(),
        "default, one step": make(steps=1),
    }


def quickest(session: Session, batches: list[list[Any]]) -> float:
    """Seconds of the quickest batch but the first."""
    turn = iter(batches)
    session.answer(next(turn)).top(10)
    return min(timed(partial(_answered, session, batch), "cpu") for batch in turn)


def _answered(session: Session, batch: list[Any]) -> object:
    return session.answer(batch).top(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, world = load("tangram"), tangram("image", "dev")
    gallery = Gallery.build(model["text"], world.candidates, batch_size=500)
    some = world.asking(range(64 * (options.rounds + 1)))
    asked = shifted(some, find("image", "gaussian_noise"))
    batches = [asked[start : start + 64] for start in range(0, len(asked), 64)]
    encoder = model["image"]
    ready, params = [encoder.ready(batch) for batch in batches], encoder.norm_params()
    with torch.no_grad():
        plain = min(timed(lambda one=one: encoder.through(params, one), "cpu") for one in ready * 2)
    found = {}
    for name, session in rows(lambda *m, **s: Session(encoder, gallery, *m, **s)).items():
        took = quickest(session, batches)
        found[name] = round(took / plain, 2)
        print(f"{name:24} {1000 * took:8.1f} ms {found[name]:6.2f} forwards", flush=True)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
