"""Methods on real sets: `python -m training.real.measure aws --model NAME=PLACE --root DIR`.

Each model has a file of its own, a line per finished cell; the same command goes on where it
stopped. Cells run in the order of `--methods`. A row of the table is a method of `queryshift run`,
`METHOD:lr=dev` (at the rate that is best on aws-dev, which is measured first), or one of

    default                  a session that is told no method, over the encoder
    vectors                  the same over the encoder's vectors: nothing of the encoder adapts
    spelling+ROW             the queries' spelling is corrected first
    bm25, bm25+ROW           lexical scores alone, or fused with a row's by their ranks
    RULE                     the default without one of its rules, a name of
                             training/comparison/without_rules.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from queryshift.encoders.vectors import Vectors
from queryshift.lab.evaluation.benchmark_methods import DEFAULT, session_of
from queryshift.lab.evaluation.benchmarks import Benchmark, find
from queryshift.lab.evaluation.ranks import relevant_ranks
from queryshift.lab.evaluation.results import Cell, read_folder, write_line
from queryshift.lab.evaluation.runner.context import RunContext
from queryshift.lab.evaluation.runner.gallery_cache import content_hash, embedded
from queryshift.lab.evaluation.runner.machine import device_name, versions
from queryshift.lab.evaluation.runner.plans import Choices, Task
from queryshift.lab.evaluation.runner.prepared_benchmark import PreparedBenchmark, prepare
from queryshift.lab.evaluation.stream_evaluation import run as run_stream
from queryshift.methods.specs import canonical
from queryshift.sessions.session import Session
from training.comparison import variants, without_rules
from training.real import rates
from training.real.lexical import BM25, Speller, fused

VECTORS, BM25_ALONE = "vectors", "bm25"
SPELLED, FUSED = "spelling+", "bm25+"
NEVER_LEARN = (VECTORS, "frozen", "tcr_untrained")
ROWS = ("frozen", "frozen+hubs", VECTORS, DEFAULT, "rest", "tcr", "shot")
BENCHES = 8  # streams that a process keeps ready
Value = TypeVar("Value")


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
        named = method in ("", DEFAULT, VECTORS, *without_rules.NAMES)
        return cls(spelled, lexical, method if named else canonical(method))

    @property
    def by_vectors(self) -> bool:
        """Whether it needs no more of the encoder than vectors."""
        return self.method.startswith(NEVER_LEARN)


@dataclass(frozen=True)
class Stream:
    """The queries of one benchmark under one shift, and the model that answers them."""

    benchmark: Benchmark
    shift: str
    severity: int
    model: str  # its label and its place, "minilm=models/minilm"

    @property
    def label(self) -> str:
        """The model's name."""
        return self.model.partition("=")[0]

    @property
    def name(self) -> str:
        """Such as "minilm-aws-typos-typos-2"."""
        shift = f"-{self.shift}-{self.severity}" if self.shift else ""
        return f"{self.label}-{self.benchmark.name}{shift}"

    def key(self, seed: int, method: str) -> tuple[Any, ...]:
        """The key of a cell on it."""
        place = (self.label, self.benchmark.name, self.shift, self.severity)
        return (*place, self.benchmark.protocol, method, seed)


class Recent(Generic[Value]):
    """The latest few values by key; the one that was used longest ago goes first."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._values: dict[Hashable, Value] = {}

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made where it is not there."""
        value = self._values.pop(key) if key in self._values else make()
        self._values[key] = value
        while len(self._values) > self._room:
            del self._values[next(iter(self._values))]
        return value


class Bench:
    """A stream made ready: its encoder, its candidates, and its queries of one seed at a time."""

    def __init__(self, stream: Stream, options: argparse.Namespace) -> None:
        self.stream, self.context = stream, _context()
        choices = Choices(
            model=stream.model.partition("=")[2],
            root=options.root,
            device=options.device,
            preprocessing="library",
        )
        self.folder = options.kept
        whole = prepare(stream.benchmark, choices, self.folder, self.context)
        self.prepared = first(whole, options.queries)
        (self.part,) = self.prepared.parts
        self.encoder = self.context.encoder(self.prepared)
        self.gallery = self.context.gallery(self.prepared, self.part)
        self._asked: Recent[list[Any]] = Recent(1)

    @property
    def lexical(self) -> tuple[Speller, BM25]:
        """Dictionary and index of the candidates."""
        return _lexical().get(self.part.content, self._index)

    def _index(self) -> tuple[Speller, BM25]:
        documents = list(self.part.dataset.candidates)
        return Speller(documents), BM25(documents)

    def cell(self, seed: int, name: str) -> Cell:
        """One row over the stream."""
        row, begun = Row.read(name), time.perf_counter()
        asked = self.asked(seed, row.spelled)
        queries = list(self.vectors(asked)) if row.by_vectors else asked
        with self.session(row, seed) as session:
            if row.lexical or session is None:
                ranks = self.lexical_ranks(session, queries, asked, seed)
            else:
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
            model=self.stream.label,
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
        return self._asked.get((seed, spelled), lambda: self._queries(seed, spelled))

    def _queries(self, seed: int, spelled: bool) -> list[Any]:
        task = Task(self.stream.shift, self.stream.severity, seed, "frozen")
        queries = list(self.context.queries(self.prepared, self.part, task))
        return [self.lexical[0].corrected(text) for text in queries] if spelled else queries

    def vectors(self, queries: Sequence[Any]) -> Tensor:
        """Their vectors (Q, D) by the source model, kept on disk."""
        return embedded(self.encoder, queries, self.folder / "queries")[0].vectors.flatten(1)

    def session(self, row: Row, seed: int) -> AbstractContextManager[Session | None]:
        """A fresh session of a row's method; None: the row has no method."""
        if not row.method:
            return nullcontext()
        if row.method in without_rules.NAMES:
            return variants.session_of(row.method, self.encoder, self.gallery, seed=seed)
        encoder = Vectors(self.gallery.dimension) if row.by_vectors else self.encoder
        method = DEFAULT if row.method == VECTORS else row.method
        own = session_of(method, self.stream.benchmark, encoder, self.gallery, seed)
        return nullcontext(own)

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


def first(prepared: PreparedBenchmark, count: int | None) -> PreparedBenchmark:
    """The benchmark asked the first `count` of its queries in a random order; None: all of them."""
    (part,) = prepared.parts
    if count is None or count >= len(part.dataset):
        return prepared
    order = torch.randperm(len(part.dataset), generator=torch.Generator().manual_seed(0))
    dataset = part.dataset.asking(order[:count].tolist())
    asked = {"queries": count, "asked": [content_hash(dataset.queries)]}
    own = (replace(part, dataset=dataset),)
    return replace(prepared, parts=own, settings={**prepared.settings, **asked})


@cache
def _context() -> RunContext:
    return RunContext()


@cache
def _benches() -> Recent[Bench]:
    return Recent(BENCHES)


@cache
def _lexical() -> Recent[tuple[Speller, BM25]]:
    return Recent(2)


@dataclass(frozen=True)
class Work:
    """One cell to be measured, in this process or another."""

    stream: Stream
    seed: int
    method: str
    options: argparse.Namespace

    @property
    def bench(self) -> Bench:
        """Its stream, made ready once in each process."""
        torch.set_num_threads(self.options.threads)
        key = (self.stream, self.options.queries)
        return _benches().get(key, lambda: Bench(self.stream, self.options))


def measured(work: Work) -> Cell | None:
    """The cell; None when the time is up."""
    late = time.time() > work.options.until
    return None if late else work.bench.cell(work.seed, work.method)


def embed(work: Work) -> None:
    """Embed the candidates, which are kept on disk."""
    work.bench.folder.mkdir(parents=True, exist_ok=True)


def streams(series: str, models: Sequence[str], only: Sequence[str]) -> Iterator[Stream]:
    """Those of a series, one for each model, shift and severity."""
    for row in find(series):
        for shift in row.shifts:
            for severity in row.severities or (0,):
                if any(part in f"{row.name}-{shift}-{severity}" for part in only):
                    yield from (Stream(row, shift, severity, model) for model in models)


def phases(options: argparse.Namespace) -> Iterator[list[Work]]:
    """Methods with no rate to be found, then the rates on development streams, then the others."""
    tuned = [method for method in options.methods if method.endswith(rates.BEST)]
    others = [method for method in options.methods if method not in tuned]
    for series in options.series:
        yield left(options, series, others, options.only)
    if tuned:
        yield left(options, rates.SERIES, rates.tried(tuned), rates.STREAMS)
    for series in options.series:
        yield left(options, series, tuned, options.only)


def left(
    options: argparse.Namespace, series: str, methods: Sequence[str], only: Sequence[str]
) -> list[Work]:
    """The cells of a series that no folder has yet, the most important first."""
    folders = [folder for folder in (options.out, *options.earlier) if any(folder.glob("*.jsonl"))]
    earlier = [cell for folder in folders for cell in read_folder(folder).cells]
    done, by_rate = {cell.key for cell in earlier}, rates.means(earlier)
    return [
        Work(stream, seed, method, options)
        for seed in range(options.seeds)
        for named in methods
        for stream in streams(series, options.model, only)
        for method in [rates.best(named, stream.label, by_rate)]
        if stream.key(seed, method) not in done
    ]


def main() -> None:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.jobs == 1:
        for wanted in phases(options):
            keep(map(measured, wanted), options.out)
        return
    with get_context("spawn").Pool(options.jobs) as pool:
        for wanted in phases(options):
            parts = {(work.stream.model, work.stream.benchmark.part): work for work in wanted}
            pool.map(embed, parts.values(), chunksize=1)  # once, not in each process
            keep(pool.imap_unordered(measured, wanted), options.out)


def keep(cells: Iterator[Cell | None], out: Path) -> None:
    """Write each cell to its model's file when it is finished."""
    skipped = 0
    for cell in cells:
        if cell is None:
            skipped += 1
            continue
        write_line(out / f"{cell.model}.jsonl", cell)
        place = f"{cell.model} {cell.benchmark} {cell.shift} {cell.severity}"
        figure, seconds = cell.measure("recall@1"), cell.seconds or 0
        print(f"{place} {cell.method} {cell.seed}: {figure:.1f}, {seconds:.0f} s", flush=True)
    if skipped:
        print(f"out of time: {skipped} cells are left", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("series", nargs="+", help="aws, msmarco, pacs, esc50")
    parser.add_argument("--model", nargs="+", required=True, metavar="LABEL=PLACE")
    parser.add_argument("--root", type=Path, help="the set's files; else where data sets lie")
    parser.add_argument("--out", type=Path, default=Path("runs") / "real")
    parser.add_argument("--earlier", type=Path, nargs="*", default=[], help="other runs' folders")
    parser.add_argument("--kept", type=Path, help="embedded candidates; else in --out")
    parser.add_argument("--methods", nargs="+", default=list(ROWS))
    parser.add_argument("--queries", type=int, help="of each stream, drawn at random; else all")
    parser.add_argument("--only", nargs="+", default=[""], help="streams whose name has this")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no cell after these")
    options = parser.parse_args()
    options.kept = options.kept or options.out / "kept"
    options.until = time.time() + options.seconds
    return options


if __name__ == "__main__":
    main()
