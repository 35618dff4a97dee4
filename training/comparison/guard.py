"""What a guard sees on streams that go well and on streams that collapse.

python -m training.comparison.guard [--queries 640]
"""

from __future__ import annotations

import argparse

import torch

from queryshift import REST, SAR, TCR, Gallery, Session, Tent, load
from queryshift.lab.datasets.tangram import tangram
from queryshift.lab.datasets.tangram_tasks import TASKS
from queryshift.lab.evaluation.stream_evaluation import run, shifted
from queryshift.methods.decoupled import drift
from queryshift.retrieval.refinement import refined
from queryshift.sessions.guard import gained

from .units import corruption_of

STREAMS = (
    ("image", "clean", 3),
    ("image", "gaussian_noise", 3),
    ("image", "fog", 5),
    ("image", "diverse", 3),
    ("text", "ocr", 5),
    ("audio", "wind", 3),
)
METHODS = (REST(), TCR(), SAR(), Tent(), Tent(lr=3e-3, temperature=0.01))


class Watching(Session):
    """A session that notes, for every batch, what a guard would look at."""

    def answer(self, queries, adapt=True, exclude=None):
        found = super().answer(queries, adapt, exclude)
        batch = self._batch(list(queries), exclude, self.gallery)
        source = self.adaptation.seen_by_source(batch)
        first = found.hits(1).positions[:, 0]
        share = gained(first, source.hits(1).positions[:, 0])
        moved = float(drift(source, refined(found, neighbours=10, temperature=0.02)))
        self.noted = [*getattr(self, "noted", []), (share, moved)]
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=640)
    options = parser.parse_args()
    print(
        f"{'task':6} {'shift':15} {'method':6} {'recall':>6}"
        f" {'share':>12} {'drift':>12}  (mean, most)"
    )
    for task, shift, severity in STREAMS:
        name, query, gallery = TASKS[task]
        model, world = load(name), tangram(task, count=options.queries)
        built = Gallery.build(model[gallery], world.candidates, batch_size=256)
        queries = shifted(world, corruption_of(task, shift), severity)
        for method in METHODS:
            session = Watching(model[query], built, method, guard=None)
            recall = run(session, queries, world.matches).recall()
            noted = torch.tensor(session.noted)
            means, most = noted.mean(0).tolist(), noted.amax(0).tolist()
            pairs = (f"{a:5.2f} {b:5.2f}" for a, b in zip(means, most, strict=True))
            print(
                f"{task:6} {shift:15} {method.name:6} {recall:6.1f} {'  '.join(pairs)}", flush=True
            )


if __name__ == "__main__":
    main()
