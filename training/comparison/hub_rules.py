"""Hub correction and fixed strengths of it, on streams of the development world.

python -m training.comparison.hub_rules [--tasks text audio]
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from queryshift import Gallery
from queryshift.lab.datasets.tangram import tangram
from queryshift.lab.datasets.tangram_tasks import TASKS
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.models import load

from .corrections import Correction, firsts_by, firsts_by_hubs, inverted_softmax, sinkhorn
from .sealed_streams import POPULAR, SEVERITIES, Stream, items

Firsts = Callable[[list[Tensor], Gallery], Tensor]


def by(correction: Correction) -> Firsts:
    """First places of a stream after a published correction."""
    return lambda parts, gallery: firsts_by(correction, parts, gallery)


RULES: dict[str, Firsts] = {
    "none": by(lambda scores, bank: scores),
    "strength 1": by(inverted_softmax(1.0)),
    "Sinkhorn": by(sinkhorn),
    "Hubs": firsts_by_hubs,
}


def streams(task: str) -> Iterator[Stream]:
    """Streams of one task that ask for everything once, for some things often, and clean ones."""
    first = POPULAR[task][0]
    for kind in ("online", "zipf", "few"):
        for severity in SEVERITIES:
            yield Stream(kind, task, first, severity, 0)
    for kind in ("half", "tenth"):
        yield Stream(kind, task, "dev:0", 3, 0)
    for kind in ("clean", "clean zipf", "repeated", "noise"):
        yield Stream(kind, task, "clean", 3, 0)


def asked(stream: Stream) -> tuple[list[Tensor], list[list[int]]]:
    """The stream's query vectors by the source model, batch by batch, and the right answers."""
    name, query, _ = TASKS[stream.task]
    captions = tangram("image", "dev").candidates if stream.task == "text" else []
    queries, matches = items(stream, tangram(stream.task, "dev"), captions)
    size, encoder = BENCHMARKS[f"tangram-o-{stream.task}"].batch, load(name)[query]
    starts = range(0, len(queries), size)
    return [encoder.encode(queries[row : row + size]) for row in starts], matches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    torch.set_num_threads(1)
    found: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    for task in parser.parse_args().tasks:
        name, _, other = TASKS[task]
        candidates = tangram(task, "dev").candidates
        gallery = Gallery.build(load(name)[other], candidates, batch_size=500)
        for stream in streams(task):
            parts, matches = asked(stream)
            for rule, firsts in RULES.items():
                pairs = zip(firsts(parts, gallery).tolist(), matches, strict=True)
                right = [place in own for place, own in pairs if own]
                found[stream.kind, stream.severity, rule].append(100 * sum(right) / len(right))
    for (kind, severity, rule), recalls in found.items():
        print(f"{kind:10} {severity} {rule:10} {sum(recalls) / len(recalls):5.1f}")


if __name__ == "__main__":
    main()
