"""Methods on Flickr8k's photographs: `python -m training.photographs.measure val|test`.

Each stream runs in a process of its own and writes a file of its own, a line per finished method;
the same command goes on where it stopped. `--rates` runs what learns at each of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import torch

from queryshift.lab.evaluation.benchmarks import AS_IT_IS, BENCHMARKS
from queryshift.lab.evaluation.results import Cell, read_lines, write_line
from queryshift.lab.evaluation.runner.context import RunContext
from queryshift.lab.evaluation.runner.plans import Choices, Task
from queryshift.lab.evaluation.runner.prepared_benchmark import PreparedBenchmark, prepare
from queryshift.lab.evaluation.runner.run_cell import run_cell
from queryshift.lab.evaluation.stream_evaluation import run as run_stream
from queryshift.methods.specs import canonical
from queryshift.sessions.session import Session

MODEL = "training.photographs.encoders:make"
RATES = (1e-3, 3e-3, 3e-4, 1e-2, 1e-4, 3e-2)  # the likely ones first
METHODS = ("shot", "rest", "tcr", "tent", "eata", "sar", "read", "tsa", "come", "pl")
STREAMS = (  # row, shift, severity
    ("flickr8k-o-image", "gaussian_noise", 1),
    ("flickr8k-o-image", "motion_blur", 2),
    ("flickr8k-o-image", "fog", 2),
    ("flickr8k-o-image", "jpeg", 3),
    ("flickr8k-d-image", AS_IT_IS, 2),
    ("flickr8k-clean-image", AS_IT_IS, 0),
    ("flickr8k-o-text", "ocr", 3),
    ("flickr8k-o-text", "character_swap", 3),
    ("flickr8k-o-text", "synonym_replacement", 3),
    ("flickr8k-o-text", "word_deletion", 3),
    ("flickr8k-d-text", AS_IT_IS, 3),
    ("flickr8k-clean-text", AS_IT_IS, 0),
)
CAPTIONS = 5  # of a picture
DEFAULT = "default"  # a session that is told no method; "default:lr=0.003" at another rate


@dataclass(frozen=True)
class Stream:
    """One file of results, and how it is made."""

    row: str
    shift: str
    severity: int
    methods: Sequence[str]
    options: argparse.Namespace

    @property
    def path(self) -> Path:
        """Where its lines go."""
        shift = f"-{self.shift}" if self.shift else ""
        return self.options.out / f"{self.options.part}-{self.row}{shift}-{self.severity}.jsonl"

    def tasks(self) -> Iterator[Task]:
        """The cells that are not in the file yet."""
        earlier = read_lines(self.path).cells if self.path.exists() else []
        done = {(cell.seed, cell.method) for cell in earlier}
        for seed in range(self.options.seeds):
            for method in map(_canonical, self.methods):
                if (seed, method) not in done:
                    yield Task(self.shift, self.severity, seed, method)


def main() -> None:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    methods = list(_specs(options.methods, options.rates))
    streams = [
        Stream(*stream, methods, options) for stream in STREAMS if options.query in stream[0]
    ]
    with get_context("spawn").Pool(options.jobs, maxtasksperchild=1) as pool:
        for line in pool.imap_unordered(run, streams):
            print(line, flush=True)


def run(stream: Stream) -> str:
    """All methods of one stream, one after another, until the time is up."""
    torch.set_num_threads(1)
    options, context, finished = stream.options, RunContext(), 0
    choices = Choices(model=MODEL, root=options.root, device=options.device)
    row = replace(BENCHMARKS[stream.row], part=options.part)
    made = prepare(row, choices, options.out / "galleries" / stream.path.stem, context)
    prepared = _narrowed(made, options.captions)
    for task in stream.tasks():
        if time.time() > options.until:
            return f"{stream.path.name}: out of time after {finished}"
        write_line(stream.path, cell_of(context, prepared, task))
        finished += 1
    return f"{stream.path.name}: {finished} methods"


def cell_of(context: RunContext, prepared: PreparedBenchmark, task: Task) -> Cell:
    """One cell; the default's is made as the frozen model's, with another session's ranks."""
    if not task.method.startswith(DEFAULT):
        return run_cell(context, prepared, task)
    made = run_cell(context, prepared, replace(task, method="frozen"))
    (part,) = prepared.parts
    rate = float(task.method.partition("=")[2] or 0) or None
    encoder, gallery = context.encoder(prepared), context.gallery(prepared, part)
    session = Session(encoder, gallery, lr=rate, seed=task.seed)
    queries = context.queries(prepared, part, task)
    found = run_stream(session, queries, part.dataset.matches, task.seed, prepared.row.batch)
    settings = {**made.settings, "method": asdict(session.method)}
    ranks = found.all_ranks.numpy()
    own = {"method": task.method, "label": task.method, "seconds": found.seconds}
    return replace(made, ranks=ranks, settings=settings, **own)


def _canonical(method: str) -> str:
    return method if method.startswith(DEFAULT) else canonical(method)


def _narrowed(prepared: PreparedBenchmark, captions: int) -> PreparedBenchmark:
    """The benchmark asked with so many captions of each picture, not always the same places."""
    if prepared.row.query != "text" or captions == CAPTIONS:
        return prepared
    (part,) = prepared.parts
    pictures = range(len(part.dataset) // CAPTIONS)
    rows = [CAPTIONS * p + (p + k) % CAPTIONS for p in pictures for k in range(captions)]
    narrowed = replace(part, dataset=part.dataset.asking(rows))
    return replace(
        prepared, parts=(narrowed,), settings={**prepared.settings, "queries": len(rows)}
    )


def _specs(methods: Sequence[str], rates: Sequence[float]) -> Iterator[str]:
    """The methods that learn at every rate; those that say theirs, or have none, as they are."""
    fixed = [name for name in methods if "lr=" in name or name.startswith(("frozen", "tcr_un"))]
    yield from fixed if rates else methods
    for rate in rates:
        for name in (name for name in methods if name not in fixed):
            base, plus, wrapper = name.partition("+")
            yield f"{base}:lr={rate:g}{plus}{wrapper}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("val", "test"))
    parser.add_argument("--root", type=Path, required=True, help="Flickr8k's files")
    parser.add_argument("--out", type=Path, default=Path("runs") / "photographs" / "results")
    parser.add_argument("--query", default="", choices=("", "image", "text"))
    parser.add_argument("--methods", nargs="+", default=["frozen", "frozen+hubs", *METHODS])
    parser.add_argument("--rates", nargs="*", type=float, default=[])
    parser.add_argument("--captions", type=int, default=CAPTIONS, help="of each picture that ask")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no method after these")
    options = parser.parse_args()
    options.until = time.time() + options.seconds
    return options


if __name__ == "__main__":
    main()
