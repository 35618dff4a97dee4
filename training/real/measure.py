"""Methods on real sets: `python -m training.real.measure aws --model NAME=PLACE --root DIR`.

Each stream writes a file of its own, a line per finished method; the same command goes on where it
stopped. A row of the table is a method of `queryshift run`, or one of

    default                  a session that is told no method, over the encoder
    vectors                  the same over the encoder's vectors: nothing of the encoder adapts
    spelling+ROW             the queries' spelling is corrected first
    bm25, bm25+ROW           lexical scores alone, or fused with a row's by their ranks
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.vectors import Vectors
from queryshift.lab.evaluation.benchmark_methods import DEFAULT, session_of
from queryshift.lab.evaluation.benchmarks import Benchmark, find
from queryshift.lab.evaluation.lexical import BM25, Speller, fused
from queryshift.lab.evaluation.metrics import relevant_ranks
from queryshift.lab.evaluation.results import Cell, read_lines, write_line
from queryshift.lab.evaluation.runner.choices import Choices
from queryshift.lab.evaluation.runner.gallery_cache import embedded
from queryshift.lab.evaluation.runner.machine import device_name, versions
from queryshift.lab.evaluation.runner.plans import Task
from queryshift.lab.evaluation.runner.prepared_benchmark import PreparedBenchmark, prepare
from queryshift.lab.evaluation.runner.workbench import Workbench
from queryshift.lab.evaluation.stream_evaluation import run as run_stream
from queryshift.methods.specs import canonical
from queryshift.sessions.session import Session

VECTORS, BM25_ALONE = "vectors", "bm25"
SPELLED, FUSED = "spelling+", "bm25+"
NEVER_LEARN = (VECTORS, "frozen", "tcr_untrained")
ROWS = ("frozen", "frozen+hubs", VECTORS, DEFAULT, "rest", "tcr", "shot")
LEXICAL = (BM25_ALONE, "spelling+frozen", "spelling+bm25", "bm25+frozen", "spelling+bm25+frozen")
WITH_OURS = ("spelling+default", "bm25+default", "spelling+bm25+default")


@dataclass(frozen=True)
class Row:
    """What answers the queries of a stream."""

    spelled: bool
    lexical: bool
    method: str  # of a session; empty: BM25 answers alone

    @classmethod
    def read(cls, text: str) -> Row:
        """The row of a name."""
        spelled, rest = text.startswith(SPELLED), text.removeprefix(SPELLED)
        lexical = rest == BM25_ALONE or rest.startswith(FUSED)
        method = "" if rest == BM25_ALONE else rest.removeprefix(FUSED)
        named = method in ("", DEFAULT, VECTORS)
        return cls(spelled, lexical, method if named else canonical(method))

    @property
    def by_vectors(self) -> bool:
        """Whether it needs no more of the encoder than vectors."""
        return self.method.startswith(NEVER_LEARN)


@dataclass(frozen=True)
class Stream:
    """One file of results, and how it is made."""

    benchmark: Benchmark
    shift: str
    severity: int
    options: argparse.Namespace

    @property
    def path(self) -> Path:
        """Where its lines go."""
        shift = f"-{self.shift}-{self.severity}" if self.shift else ""
        return self.options.out / f"{self.options.label}-{self.benchmark.name}{shift}.jsonl"

    def left(self) -> Iterator[tuple[int, str]]:
        """Seeds and methods that are not in the file yet."""
        earlier = read_lines(self.path).cells if self.path.exists() else []
        done = {(cell.seed, cell.method) for cell in earlier}
        for seed in range(self.options.seeds):
            yield from ((seed, name) for name in self.options.methods if (seed, name) not in done)


class Bench:
    """A stream made ready: its encoder, its candidates, and its queries of one seed at a time."""

    def __init__(self, stream: Stream) -> None:
        options = stream.options
        self.stream, self.workbench = stream, Workbench()
        choices = Choices(
            model=options.place, root=options.root, device=options.device, preprocessing="library"
        )
        self.folder = options.out / "kept"
        self.prepared: PreparedBenchmark = prepare(
            stream.benchmark, choices, self.folder, self.workbench
        )
        (self.part,) = self.prepared.parts
        self.encoder = self.workbench.encoder(self.prepared)
        self.gallery = self.workbench.gallery(self.prepared, self.part)
        self._lexical: tuple[Speller, BM25] | None = None

    @property
    def lexical(self) -> tuple[Speller, BM25]:
        """Dictionary and index of the candidates, made when first asked for."""
        if self._lexical is None:
            documents = list(self.part.dataset.candidates)
            self._lexical = Speller(documents), BM25(documents)
        return self._lexical

    def cell(self, seed: int, name: str) -> Cell:
        """One row over the stream."""
        row, begun = Row.read(name), time.perf_counter()
        asked = self.asked(seed, row.spelled)
        session = self.session(row, seed) if row.method else None
        queries = list(self.vectors(asked)) if row.by_vectors else asked
        if row.lexical:
            ranks = self.lexical_ranks(session, queries, asked, seed)
        else:
            assert session is not None
            ranks = run_stream(
                session, queries, self.part.dataset.matches, seed, self.stream.benchmark.batch
            ).all_ranks
        return Cell(
            benchmark=self.stream.benchmark.name,
            shift=self.stream.shift,
            severity=self.stream.severity,
            protocol=self.stream.benchmark.protocol,
            method=name,
            seed=seed,
            ranks=ranks.numpy(),
            candidates=len(self.gallery),
            model=self.stream.options.label,
            seconds=time.perf_counter() - begun,
            device=device_name(self.encoder.device),
            versions=versions(),
            settings=self.settings(session),
            finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )

    def settings(self, session: Session | None) -> dict[str, Any]:
        """What decides the numbers."""
        kept = ("queries", "candidates", "content", "asked", "model_fingerprint", "batch")
        settings = {name: self.prepared.settings[name] for name in kept} | self.groups()
        return settings | ({} if session is None else {"method": asdict(session.method)})

    def groups(self) -> dict[str, list[int]]:
        """Which queries are one and the same, where some are: their ids end alike after a colon."""
        names = [name.rpartition(":")[2] for name in self.part.dataset.query_ids]
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        return {"groups": [places[name] for name in names]} if len(places) < len(names) else {}

    def asked(self, seed: int, spelled: bool) -> list[Any]:
        """The queries as they come, or with their spelling corrected."""
        task = Task(self.stream.shift, self.stream.severity, seed, "frozen")
        queries = list(self.workbench.queries(self.prepared, self.part, task))
        return [self.lexical[0].corrected(text) for text in queries] if spelled else queries

    def vectors(self, queries: Sequence[Any]) -> Tensor:
        """Their vectors (Q, D) by the source model, kept on disk."""
        return embedded(self.encoder, queries, self.folder / "queries")[0].vectors.flatten(1)

    def session(self, row: Row, seed: int) -> Session:
        """A fresh session of a row's method."""
        encoder = Vectors(self.gallery.dimension) if row.by_vectors else self.encoder
        method = DEFAULT if row.method == VECTORS else row.method
        return session_of(method, self.stream.benchmark, encoder, self.gallery, seed)

    def lexical_ranks(
        self, session: Session | None, queries: Sequence[Any], texts: Sequence[str], seed: int
    ) -> Tensor:
        """Ranks (Q, R) by BM25, fused with a session's where there is one."""
        matches = self.part.dataset.matches
        found = torch.zeros(len(texts), max(map(len, matches)), dtype=torch.long)
        order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed))
        for rows in order.split(self.stream.benchmark.batch):
            some = rows.tolist()
            scores = self.lexical[1].scores([texts[row] for row in some])
            if session is not None:
                scores = fused(session.answer([queries[row] for row in some]).scores(), scores)
            ranks = relevant_ranks(scores, [matches[row] for row in some])
            found[rows, : ranks.shape[1]] = ranks
        return found


def streams(options: argparse.Namespace) -> Iterator[Stream]:
    """Those of a series, one for each shift and severity."""
    for row in find(options.series):
        for shift in row.shifts:
            for severity in row.severities or (0,):
                if options.only in f"{row.name}-{shift}-{severity}":
                    yield Stream(row, shift, severity, options)


def run(stream: Stream) -> str:
    """All that is left of one stream, until the time is up."""
    torch.set_num_threads(stream.options.threads)
    left, bench = list(stream.left()), None
    for finished, (seed, name) in enumerate(left):
        if time.time() > stream.options.until:
            return f"{stream.path.name}: out of time after {finished} of {len(left)}"
        bench = bench or Bench(stream)
        cell = bench.cell(seed, name)
        write_line(stream.path, cell)
        figure, seconds = cell.measure("recall@1"), cell.seconds or 0
        print(f"{stream.path.stem} {name} {seed}: {figure:.1f}, {seconds:.0f} s", flush=True)
    return f"{stream.path.name}: {len(left)} cells"


def main() -> None:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = list(streams(options))
    if options.jobs == 1:
        for stream in wanted:
            print(run(stream), flush=True)
        return
    torch.set_num_threads(options.threads)
    for row in dict.fromkeys(stream.benchmark for stream in wanted):
        Bench(
            replace(wanted[0], benchmark=row)
        )  # candidates are embedded once, not in each process
    with get_context("spawn").Pool(options.jobs, maxtasksperchild=1) as pool:
        for line in pool.imap_unordered(run, wanted):
            print(line, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("series", help="aws, msmarco, pacs, esc50, or one of them with -dev")
    parser.add_argument("--model", required=True, metavar="LABEL=PLACE", help="what `load` takes")
    parser.add_argument("--root", type=Path, required=True, help="the set's files")
    parser.add_argument("--out", type=Path, default=Path("runs") / "real")
    parser.add_argument("--methods", nargs="+", default=list(ROWS))
    parser.add_argument("--only", default="", help="streams whose name has this")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no cell after these")
    options = parser.parse_args()
    options.label, _, options.place = options.model.partition("=")
    options.until = time.time() + options.seconds
    return options


if __name__ == "__main__":
    main()
