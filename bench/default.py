"""What people run beside a frozen session: the default and REST, in batches and one by one.

    python bench/default.py [--candidates 12000 200000] [--galleries memory "faiss hnsw" ...]
    python bench/default.py --encoder [--device cpu|cuda] [--tower tangram|vit]

Without `--encoder`, queries are vectors of 256 dimensions beside candidates in clusters of a
hundred, and hub correction remembers its 1,024 queries from the start. With it, an encoder makes
the vectors of 25,000 candidates' queries, and REST is measured too; single queries gather in groups
of 16, learnt from in turn. The default has two rows: in "default" the queries are so far from every
candidate that the model is uncertain and all parts of the policy are at work; in "default, certain"
each has a candidate close by, and the source model answers alone. Sessions take turns query by
query and batch by batch. "x" is the ratio of medians of CPU time, the server's included (on a GPU:
of the clock), to the frozen session of the same run.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from engine_list import Engine, engine_named, installed
from rows import Rows, parser
from torch import Tensor
from torch.nn.functional import normalize
from towers import add_options, batch_for, encoder_for, gallery_for

import engines
from queryshift import REST, Frozen, Gallery, Searchable, Session, Vectors
from queryshift.retrieval.hubness.query_bank import QueryBank

BATCH, SINGLES, GATHER, K = 64, 16, 16, 10
BANK = 1024
CHANCES = {"default": 0.45, "default, certain": 0.0}  # of the queries that are remembered
AWAY = 0.25  # in each dimension: as far as any candidate is by chance
FLOOR = "the frozen session, in the same run"
COLUMNS = {
    "gallery": "",
    "candidates": ",",
    "queries": "",
    "session": "",
    "ms": ".1f",
    "x": ".2f",
    "wall ms": ".1f",
    "wall x": ".2f",
    "mean x": ".2f",
}
Clock = Callable[[], float]
Stream = tuple[Session, Sequence[Any]]  # a session and its queries


def main() -> None:
    asking = parser(__doc__, rounds=8)
    add_options(asking)
    asking.add_argument("--candidates", type=int, nargs="*")
    asking.add_argument("--galleries", nargs="*", default=["memory"], help=", ".join(installed()))
    asking.add_argument("--encoder", action="store_true", help="of --tower, in place of vectors")
    asked = asking.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = Rows(asked, FLOOR, COLUMNS)
    if asked.encoder:
        measure_encoder(asked, rows)
        return
    for candidates in asked.candidates or [12_000, 200_000]:
        engines.QUERIES = BANK + needed(asked.rounds)
        vectors, queries = engines.clustered(candidates)
        memory = Gallery.from_vectors(range(candidates), vectors)
        for name in asked.galleries:
            lists = engines.lists(candidates)
            with TemporaryDirectory() as folder, engine_named(name, Path(folder), lists) as engine:
                measure_vectors(name, engine, memory, queries, asked.rounds, rows)


def measure_vectors(
    name: str, engine: Engine, memory: Gallery, queries: Tensor, rounds: int, rows: Rows
) -> None:
    """Frozen and default sessions over one gallery of vectors."""
    gallery = memory if name == "memory" else engine.make(memory.ids, memory.vectors[:, 0].numpy())
    encoder, draw = Vectors(memory.dimension), torch.Generator().manual_seed(1)
    far = normalize(queries + AWAY * torch.randn(queries.shape, generator=draw), dim=1)
    kinds = {"default": far, "default, certain": queries}
    streams = {"frozen": (Session(encoder, gallery, Frozen()), list(far[BANK:]))}
    for kind, asked in kinds.items():
        session = Session(encoder, gallery)
        session.restore(remembering(session, asked[:BANK], memory, gallery, CHANCES[kind]))
        streams[kind] = (session, list(asked[BANK:]))
    about = {"gallery": name, "candidates": len(memory)}
    clock = lambda: engines.cpu(engine)  # noqa: E731
    compare(streams, rounds, clock, about, rows)
    if gallery is not memory:
        gallery.close()


def remembering(
    session: Session, queries: Tensor, memory: Gallery, gallery: Searchable, chance: float
) -> Any:
    """The state of a session whose hub correction has seen these queries."""
    first = [ids[0] for ids in memory.search(queries, 1).ids]
    places = torch.tensor(gallery.positions(first))
    chances = torch.full((len(queries),), chance)
    bank = QueryBank(queries.half(), places, places.clone(), chances)
    return replace(session.state, hubs=bank)


def measure_encoder(asked: argparse.Namespace, rows: Rows) -> None:
    """Frozen, REST and default sessions with an encoder."""
    encoder = encoder_for(asked)
    items = batch_for(asked, needed(asked.rounds), home="cpu")
    other = batch_for(asked, needed(asked.rounds), seed=1, home="cpu")
    close = torch.cat(
        [encoder.encode(other[at : at + BATCH]) for at in range(0, len(other), BATCH)]
    )
    clock = gpu_clock if asked.device == "cuda" else time.process_time
    for candidates in asked.candidates or [25_000]:
        gallery = gallery_for(asked, candidates)
        known = gallery.add_vectors([f"near {row}" for row in range(len(close))], close)
        about = {"gallery": f"memory, {asked.tower}", "candidates": candidates}
        for gather, size in ((None, BATCH), (GATHER, 1)):
            streams = {
                "frozen": (Session(encoder, gallery, Frozen()), items),
                "rest": (Session(encoder, gallery, REST(), guard=None, gather=gather), items),
                "default": (Session(encoder, gallery, gather=gather), items),
                "default, certain": (Session(encoder, known, gather=gather), other),
            }
            compare(streams, asked.rounds, clock, about, rows, [size])


def gpu_clock() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def compare(
    streams: dict[str, Stream],
    rounds: int,
    clock: Clock,
    about: dict[str, Any],
    rows: Rows,
    sizes: Sequence[int] = (BATCH, 1),
) -> None:
    """A row for each session: batches, then single queries, in turns; no query comes twice."""
    used = 0
    for size in sizes:
        count = rounds if size > 1 else rounds * SINGLES
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in streams}
        for number in range(-2, count):
            for name, (session, items) in streams.items():
                spent = timed(session, items[used : used + size], clock)
                if number >= 0:
                    taken[name].append(spent)
            used += size
        floor = [statistics.median(column) for column in zip(*taken["frozen"], strict=True)]
        mean = statistics.mean(spent for spent, _ in taken["frozen"])
        for name, spent in taken.items():
            cpu, wall = (statistics.median(column) for column in zip(*spent, strict=True))
            rows.add(
                {
                    **about,
                    "queries": "batch" if size > 1 else "single",
                    "session": name,
                    "ms": 1000 * cpu,
                    "x": cpu / floor[0],
                    "wall ms": 1000 * wall,
                    "wall x": wall / floor[1],
                    "mean x": statistics.mean(cpu for cpu, _ in spent) / mean,
                    "batches": session_batches(streams[name][0]),
                }
            )


def needed(rounds: int) -> int:
    """Queries of all batches and singles, those that warm up included."""
    return BATCH * (rounds + 2) + SINGLES * rounds + 2


def session_batches(session: Session) -> int:
    """Batches that taught something."""
    return sum(stats.adapted for stats in session.history)


def timed(session: Session, items: Sequence[Any], clock: Clock) -> tuple[float, float]:
    """Seconds by a clock, and by that on the wall, until the best ten are there."""
    wall, started = time.perf_counter(), clock()
    session.answer(items).top(K).ids  # noqa: B018
    return clock() - started, time.perf_counter() - wall


if __name__ == "__main__":
    main()
