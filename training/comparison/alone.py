"""What REST's loss terms do to a stream when they act alone: first answers, spread and gap.

python -m training.comparison.alone image gaussian_noise
python -m training.comparison.alone text ocr
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import torch

from queryshift.lab.evaluation.benchmark_methods import method_of
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.runner.choices import Choices
from queryshift.lab.evaluation.runner.plans import Task
from queryshift.lab.evaluation.runner.prepared_benchmark import PreparedBenchmark, prepare
from queryshift.lab.evaluation.runner.workbench import Workbench
from queryshift.sessions.session import Session

from . import lines

QUERIES, BATCH, SEVERITY = 640, 64, 3
CHOSEN = {"image": 3e-3, "text": 1e-3}  # REST's learning rate in the comparison
ALONE = {
    "L_U": "entropy=false,gap=false,mining=false",
    "L_C": "gap=false,uniformity=false",
    "L_G": "entropy=false,mining=false,uniformity=false",
    "L_U + L_C": "gap=false",
    "all": "",
}


def main(task: str, shift: str) -> str:
    """A row for each choice of terms, at the chosen rate and at a tenth of it."""
    workbench = Workbench()
    row = BENCHMARKS[f"tangram-o-{task}"]
    prepared = prepare(row, Choices(queries=QUERIES), Path("runs") / "galleries", workbench)
    specs = {("none", ""): "frozen"}
    for rate in (CHOSEN[task], CHOSEN[task] / 10):
        for name, terms in ALONE.items():
            specs[name, f"{rate:g}"] = ",".join(filter(None, (f"rest:lr={rate:g}", terms)))
    rows = [[*key, *measured(workbench, prepared, shift, spec)] for key, spec in specs.items()]
    head = ["terms", "rate", "recall at 1", "most frequent first answer", "spread", "gap", "aim"]
    return lines.table(rows, head)


def measured(workbench: Workbench, prepared: PreparedBenchmark, shift: str, spec: str) -> list[str]:
    """Recall of the stream; of its second half, the largest share of one candidate; the end."""
    (part,) = prepared.parts
    method = method_of(spec, prepared.row)
    encoder, gallery = workbench.encoder(prepared), workbench.gallery(prepared, part)
    session = Session(encoder, gallery, method, guard=None)
    queries = workbench.queries(prepared, part, Task(shift, SEVERITY, 0, spec))
    order = torch.randperm(QUERIES, generator=torch.Generator().manual_seed(0))
    first: list[int] = []
    for rows in order.split(BATCH):
        answer = session.answer([queries[row] for row in rows.tolist()])
        first += answer.top(1).positions[:, 0].tolist()
    asked = zip(first, order.tolist(), strict=True)
    right = sum(place in part.dataset.matches[row] for place, row in asked)
    half = first[QUERIES // 2 :]
    share = Counter(half).most_common(1)[0][1] / len(half)
    last = session.history[-1]
    told = (last.spread, last.gap, last.source_gap)
    return [f"{100 * right / QUERIES:.1f}", f"{share:.0%}", *(f"{value:.2f}" for value in told)]


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
