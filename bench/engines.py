"""Engines beside the gallery in memory: one search, a REST batch, and what a pool's depth costs.

    python bench/engines.py [--candidates 20000] [--engines memory "faiss flat" ...] [--depths]

64 queries of 256 dimensions, best 10 with vectors; one thread here, servers as they come. CPU ms is
of this process and the server's together, the quickest of some rounds; "x" columns are ratios to
the gallery in memory in the same run. Recall at 10 is against exact search, for queries near
candidates and for the same ones moved as a shift moves them. A REST batch answers the 64 queries
and learns from them, three steps, by an encoder that costs next to nothing. `--depths` measures
pools of 50, 100 and 300 hits instead.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from engine_list import Engine, cpu_seconds, engine_named, installed
from rows import Rows, parser
from torch import Tensor, nn
from torch.nn.functional import normalize

from queryshift import REST, Encoder, Gallery, Searchable, Session
from queryshift.galleries import Found
from queryshift.galleries.index_recall import moved_away
from queryshift.retrieval.pool import DEPTH

DIMENSION, QUERIES, K, MEMBERS = 256, 64, 10, 100
DEPTHS = (50, 100, 300)
FLOOR = "the gallery in memory, in the same run"
COLUMNS = {
    "engine": "",
    "build CPU s": ".1f",
    "CPU ms": ".1f",
    "x": ".2f",
    "wall ms": ".1f",
    "ordinary": ".3f",
    "shifted": ".3f",
    "REST CPU ms": ".1f",
    "REST x": ".2f",
}
POOL_COLUMNS = {
    "engine": "",
    "depth": "d",
    "MB fetched": ".1f",
    "pool": ",",
    "CPU ms": ".1f",
    "x": ".2f",
    "same first": ".3f",
}


class OneNorm(Encoder):
    """A LayerNorm on vectors: what adapts, and nothing else that costs."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(DIMENSION)

    def prepare(self, items: list[Tensor]) -> Tensor:
        return torch.stack(list(items))

    def forward(self, prepared: Tensor) -> Tensor:
        return normalize(self.norm(prepared), dim=1)


def main() -> None:
    asking = parser(__doc__, rounds=3)
    asking.add_argument("--candidates", type=int, default=20_000)
    asking.add_argument("--engines", nargs="*", default=installed())
    asking.add_argument("--lists", type=int, help="of an IVF index; else by its size")
    asking.add_argument("--depths", action="store_true", help="measure depths of the pool instead")
    asked = asking.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    vectors, queries = clustered(asked.candidates)
    measure = measured_depths if asked.depths else measured
    rows = Rows(asked, FLOOR, POOL_COLUMNS if asked.depths else COLUMNS)
    memory = Gallery.from_vectors(range(len(vectors)), vectors)
    for name in asked.engines:
        with (
            TemporaryDirectory(prefix="queryshift-bench-") as folder,
            engine_named(name, Path(folder), asked.lists or lists(len(vectors))) as engine,
        ):
            for row in measure(name, engine, memory, queries, asked.rounds):
                rows.add(row)


def clustered(count: int) -> tuple[Tensor, Tensor]:
    """Unit vectors in clusters of about a hundred, and queries near some of them."""
    draw = torch.Generator().manual_seed(0)
    centres = torch.randn(max(1, count // MEMBERS), DIMENSION, generator=draw)
    home = torch.randint(len(centres), (count,), generator=draw)
    vectors = centres[home]
    for part in vectors.split(100_000):
        part += torch.randn(part.shape, generator=draw)
        part /= part.norm(dim=1, keepdim=True)
    near = vectors[torch.randint(count, (QUERIES,), generator=draw)]
    moved = near + 0.05 * torch.randn(near.shape, generator=draw)
    return vectors, normalize(moved, dim=1)


def lists(count: int) -> int:
    """How many lists an IVF index has: four times the root of its size, as FAISS advises."""
    return 2 ** round(0.5 * torch.tensor(16.0 * count).log2().item())


def measured(
    name: str, engine: Engine, memory: Gallery, queries: Tensor, rounds: int
) -> Iterator[dict]:
    """One row of an engine."""
    start = cpu(engine)
    gallery = engine.make(memory.ids, memory.vectors[:, 0].numpy())
    built = cpu(engine) - start
    search = beside_memory(
        lambda of: of.search(queries, K).vectors, gallery, memory, engine, rounds
    )
    rest = beside_memory(rest_batch(queries, DEPTH), gallery, memory, engine, rounds)
    yield {
        "engine": name,
        "build CPU s": built,
        "CPU ms": search.cpu,
        "x": search.ratio,
        "wall ms": search.wall,
        "ordinary": recall(gallery, memory, queries),
        "shifted": recall(gallery, memory, shifted(queries, memory)),
        "REST CPU ms": rest.cpu,
        "REST x": rest.ratio,
    }
    close(gallery)


def measured_depths(
    name: str, engine: Engine, memory: Gallery, queries: Tensor, rounds: int
) -> Iterator[dict]:
    """A row for each depth: what a REST batch fetches and costs, and how often it answers alike."""
    gallery = engine.make(memory.ids, memory.vectors[:, 0].numpy())
    first = [row[0] for row in answered(memory, queries, DEPTH)]
    for depth in DEPTHS:
        rest = beside_memory(rest_batch(queries, depth), gallery, memory, engine, rounds)
        same = zip(first, answered(gallery, queries, depth), strict=True)
        fetched = gallery.search(queries, depth)
        yield {
            "engine": name,
            "depth": depth,
            "MB fetched": fetched.positions.numel() * DIMENSION * 4 / 1e6,
            "pool": len(fetched.positions.unique()),
            "CPU ms": rest.cpu,
            "x": rest.ratio,
            "same first": sum(one == row[0] for one, row in same) / len(first),
        }
    close(gallery)


def rest_batch(queries: Tensor, depth: int) -> Callable[[Searchable], object]:
    """A batch of a session over a gallery: one session for each, made when it is first asked."""
    sessions: dict[int, Session] = {}

    def answer(gallery: Searchable) -> object:
        if id(gallery) not in sessions:
            method = REST(lr=1e-4, temperature=0.02)
            sessions[id(gallery)] = Session(OneNorm(), gallery, method, depth=depth, guard=None)
        return sessions[id(gallery)].answer(list(queries)).top(K).ids

    return answer


def answered(gallery: Searchable, queries: Tensor, depth: int) -> list[list]:
    """The answers of a REST session's third batch."""
    answer = rest_batch(queries, depth)
    return [answer(gallery) for _ in range(3)][-1]


def shifted(queries: Tensor, memory: Gallery) -> Tensor:
    """Queries moved away from their nearest candidates, as `queryshift gallery check` does."""
    hits = memory.search(queries, K)
    nearest = [
        Found(ids, vectors[:, 0].numpy())
        for ids, vectors in zip(hits.ids, hits.vectors, strict=True)
    ]
    return torch.from_numpy(moved_away(queries.numpy(), nearest))


def recall(gallery: Searchable, memory: Gallery, queries: Tensor) -> float:
    """The share of the exact best ten that is found."""
    found, exact = gallery.search(queries, K).ids, memory.search(queries, K).ids
    pairs = zip(found, exact, strict=True)
    return sum(len(set(row) & set(best)) for row, best in pairs) / (K * len(exact))


class Times(NamedTuple):
    """The least milliseconds of CPU, here and in the server, and of the clock."""

    cpu: float
    wall: float
    ratio: float  # of the CPU time to that of the gallery in memory, measured in turns


def beside_memory(
    call: Callable[[Searchable], object],
    gallery: Searchable,
    memory: Gallery,
    engine: Engine,
    rounds: int,
) -> Times:
    """A call of an engine's gallery and of the one in memory, in turns."""
    call(gallery), call(memory)
    pairs = [(timed(call, gallery, engine), timed(call, memory, engine)) for _ in range(rounds)]
    least, wall = (min(of[0][which] for of in pairs) for which in (0, 1))
    return Times(least, wall, least / min(of[1][0] for of in pairs))


def timed(call: Callable[[Searchable], object], gallery: Searchable, engine: Engine) -> list[float]:
    """Milliseconds of CPU and of the clock."""
    before, start = cpu(engine), time.perf_counter()
    call(gallery)
    wall = time.perf_counter() - start
    return [1000 * (cpu(engine) - before), 1000 * wall]


def cpu(engine: Engine) -> float:
    return time.process_time() + cpu_seconds(engine.pid)


def close(gallery: Searchable) -> None:
    if not isinstance(gallery, Gallery):
        gallery.close()


if __name__ == "__main__":
    main()
