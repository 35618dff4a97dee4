"""Galleries of 10^4 to 10^7 candidates: build time, memory, time of a batch, recall.

    python bench/scale.py --candidates 100000 --galleries "faiss hnsw" --json rows.jsonl

Candidates are those of bench/engines.py, 256 dimensions in clusters of a hundred, written to
`--folder` (10 GB at 10^7). What exists there is used again: a run that ends early, or after
`--seconds` of building, goes on where it was; call it until it prints a row. A batch is 64 queries,
their best ten with vectors. CPU time is of this process and the server's, one thread, the median of
some rounds; memory is what opening a gallery adds to the process, disk the files that it maps or
that a server keeps. Recall at 10 is against exact search, for queries near candidates and for
queries moved as by a shift.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import faiss
import numpy as np
import torch
from engine_list import cpu_seconds
from numpy.typing import NDArray
from rows import Rows, parser

from engines import DIMENSION, MEMBERS, K
from queryshift import Gallery, Searchable
from queryshift.galleries import Found
from queryshift.galleries.faiss import Faiss
from queryshift.galleries.index_recall import moved_away
from queryshift.galleries.postgres import Postgres

QUERIES, PART, BLOCK = 64, 1_000_000, 20_000
NEAR = 0.05  # how far a query is from a candidate, in each dimension
TRAINED_ON = 200_000  # vectors
TIMEOUT = 120.0  # seconds of one call of a server
HNSW = "USING hnsw (embedding vector_cosine_ops) WITH (m = 16, ef_construction = 64)"
GRAPH = "768MB"  # in which PostgreSQL builds an index; a graph that does not fit takes far longer
FACTORIES = {
    "faiss flat": "Flat",
    "faiss hnsw": "HNSW32",
    "faiss sq8": "IVF{lists},SQ8",
    "faiss pq": "IVF{lists},PQ64",
}
GALLERIES = ("memory float32", "memory float16", *FACTORIES, "postgres hnsw")
FLOOR = "none: read the columns beside each other"
COLUMNS = {
    "gallery": "",
    "candidates": ",",
    "build CPU s": ".0f",
    "memory MB": ",.0f",
    "disk MB": ",.0f",
    "CPU ms": ".1f",
    "wall ms": ".1f",
    "clean": ".3f",
    "shifted": ".3f",
}
Array = NDArray[np.float32]


class Exact(NamedTuple):
    """Queries, and the positions (64, 10) of their exact best candidates."""

    queries: Array
    best: NDArray[np.int64]


class Opened(NamedTuple):
    """A gallery, the CPU seconds of its build, bytes of its files, and its server's process."""

    gallery: Searchable
    built: float
    disk: int
    pid: int | None = None


def main() -> None:
    asking = parser(__doc__, rounds=7)
    asking.add_argument("--candidates", type=int, nargs="*", default=[10_000, 100_000])
    asking.add_argument("--galleries", nargs="*", default=GALLERIES, help=", ".join(GALLERIES))
    asking.add_argument("--folder", default=".bench/scale")
    asking.add_argument("--seconds", type=float, default=480, help="of building in one run")
    asked = asking.parse_args()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = Rows(asked, FLOOR, COLUMNS)
    for candidates in asked.candidates:
        folder = Path(asked.folder) / str(candidates)
        folder.mkdir(parents=True, exist_ok=True)
        vectors = candidates_in(folder, candidates)
        kinds = {"clean": exact_of(folder, vectors)}
        kinds["shifted"] = exact_of(folder, vectors, kinds["clean"])
        for name in asked.galleries:
            measure(name, folder, vectors, kinds, asked, rows)


def measure(
    name: str,
    folder: Path,
    vectors: Array,
    kinds: dict[str, Exact],
    asked: argparse.Namespace,
    rows: Rows,
) -> None:
    """The row of one gallery; none if it could not be built in time."""
    before = resident()
    try:
        with opened(name, folder, vectors, asked.seconds) as (gallery, built, disk, pid):
            memory = resident() - before
            times = [timed(gallery, kinds["clean"].queries, pid) for _ in range(asked.rounds + 1)]
            cpu, wall = (statistics.median(column) for column in zip(*times[1:], strict=True))
            found = {kind: recall(gallery, exact) for kind, exact in kinds.items()}
    except TimeoutError as late:
        print(f"{name}, {len(vectors):,}: {late}")
        return
    rows.add(
        {
            "gallery": name,
            "candidates": len(vectors),
            "build CPU s": built,
            "memory MB": memory / 1e6,
            "disk MB": disk / 1e6,
            "CPU ms": 1000 * cpu,
            "wall ms": 1000 * wall,
            **found,
        }
    )


def candidates_in(folder: Path, count: int) -> Array:
    """Unit vectors in clusters of about a hundred, in a file that is mapped."""
    path = folder / "vectors.npy"
    if not path.exists():
        draw = torch.Generator().manual_seed(0)
        centres = torch.randn(max(1, count // MEMBERS), DIMENSION, generator=draw)
        partial = folder / "partial.npy"
        shape = (count, DIMENSION)
        file = np.lib.format.open_memmap(partial, "w+", np.float32, shape)
        for start in range(0, count, PART // 10):
            size = min(PART // 10, count - start)
            part = centres[torch.randint(len(centres), (size,), generator=draw)]
            part += torch.randn(part.shape, generator=draw)
            file[start : start + size] = (part / part.norm(dim=1, keepdim=True)).numpy()
        file.flush()
        partial.rename(path)
    vectors: Array = np.load(path, mmap_mode="r")
    return vectors


def exact_of(folder: Path, vectors: Array, clean: Exact | None = None) -> Exact:
    """Queries near candidates, or these moved as by a shift, and what exact search finds."""
    path = folder / ("clean.npz" if clean is None else "shifted.npz")
    if not path.exists():
        if clean is None:
            draw = np.random.default_rng(0)
            near = vectors[np.sort(draw.choice(len(vectors), QUERIES, replace=False))]
            queries = near + NEAR * draw.standard_normal(near.shape, dtype=np.float32)
            queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        else:
            found = [Found(row.tolist(), vectors[row]) for row in clean.best]
            queries = moved_away(clean.queries, found)
        np.savez(path, queries=queries, best=best_of(queries, vectors))
    with np.load(path) as kept:
        return Exact(kept["queries"], kept["best"])


def best_of(queries: Array, vectors: Array) -> NDArray[np.int64]:
    """The positions (64, 10) of the exact best."""
    scores, places = torch.empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.long)
    wanted = torch.from_numpy(queries)
    for start in range(0, len(vectors), PART // 10):
        part = wanted @ torch.from_numpy(np.array(vectors[start : start + PART // 10])).T
        best, columns = part.topk(K, dim=1)
        scores = torch.cat((scores, best), dim=1)
        places = torch.cat((places, columns + start), dim=1)
        scores, order = scores.topk(K, dim=1)
        places = places.gather(1, order)
    found: NDArray[np.int64] = places.numpy()
    return found


@contextmanager
def opened(name: str, folder: Path, vectors: Array, seconds: float) -> Iterator[Opened]:
    """A gallery over the candidates, built as far as it was not."""
    if name == "memory float32":
        start = time.process_time()
        gallery = Gallery.from_vectors(None, np.array(vectors))
        yield Opened(gallery, time.process_time() - start, 0)
    elif name == "memory float16":
        yield halved(folder, vectors)
    elif name == "postgres hnsw":
        with in_postgres(vectors) as served:
            yield served
    else:
        factory = FACTORIES[name].format(lists=lists(len(vectors)))
        path = folder / f"{name}.index"
        built = built_index(path, vectors, factory, seconds)
        compressed = "PQ" in factory or "SQ" in factory
        beside = Path(f"{path}.npy")
        if compressed and not beside.exists():
            beside.hardlink_to(folder / "vectors.npy")
        yield Opened(Faiss(path), built, beside.stat().st_size if compressed else 0)


def halved(folder: Path, vectors: Array) -> Opened:
    """A gallery over a file of float16, which is mapped."""
    path = folder / "float16.npy"
    start = time.process_time()
    if not path.exists():
        partial = folder / "partial16.npy"
        file = np.lib.format.open_memmap(partial, "w+", np.float16, vectors.shape)
        for at in range(0, len(vectors), PART // 10):
            file[at : at + PART // 10] = vectors[at : at + PART // 10]
        file.flush()
        partial.rename(path)
    gallery = Gallery.from_vectors(None, np.load(path, mmap_mode="r"))
    return Opened(gallery, time.process_time() - start, path.stat().st_size)


def lists(count: int) -> int:
    """How many lists an IVF index has: four times the root of its size, at most 1,024."""
    return min(1024, 2 ** round(0.5 * np.log2(16.0 * count)))


def built_index(path: Path, vectors: Array, factory: str, seconds: float) -> float:
    """Write an index part by part; the CPU seconds of all runs, or an error if time is up."""
    progress = Path(f"{path}.json")
    kept = json.loads(progress.read_text()) if progress.exists() else {"cpu": 0.0, "done": 0}
    end = time.monotonic() + seconds
    start, begun = time.process_time(), kept["cpu"]
    index = faiss.read_index(str(path)) if kept["done"] else trained(vectors, factory)
    while kept["done"] < len(vectors):
        part = np.array(vectors[kept["done"] : kept["done"] + BLOCK])
        index.add(part)
        kept["done"] += len(part)
        late = time.monotonic() > end
        if late or kept["done"] == len(vectors):
            kept["cpu"] = begun + time.process_time() - start
            faiss.write_index(index, str(path))
            progress.write_text(json.dumps(kept))
        if late and kept["done"] < len(vectors):
            raise TimeoutError(f"{kept['done']:,} candidates built so far, call again")
    return float(kept["cpu"])


def trained(vectors: Array, factory: str) -> faiss.Index:
    """An empty index, trained on some of the vectors if it is of lists."""
    index = faiss.index_factory(DIMENSION, factory, faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:
        every = max(1, len(vectors) // TRAINED_ON)
        index.train(np.array(vectors[::every][:TRAINED_ON]))
    return index


@contextmanager
def in_postgres(vectors: Array) -> Iterator[Opened]:
    """PostgreSQL with an HNSW index."""
    import psycopg
    from new_collections import create

    from postgres_server import PostgresServer

    server = PostgresServer()
    server.start()
    try:
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET maintenance_work_mem = '{GRAPH}'")
            connection.execute("SELECT pg_reload_conf()")
        pid, start = server.process.pid, time.process_time()
        before, empty = cpu_seconds(pid), bytes_in(server.data / "base")
        address = f"{server.address}?table=items"
        create(address, list(range(len(vectors))), np.array(vectors), HNSW).close()
        built = time.process_time() - start + cpu_seconds(pid) - before
        gallery = Postgres(server.address, table="items", timeout=TIMEOUT)
        yield Opened(gallery, built, bytes_in(server.data / "base") - empty, pid)
        gallery.close()
    finally:
        server.stop()


def bytes_in(folder: Path) -> int:
    """The size of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*"))


def timed(gallery: Searchable, queries: Array, pid: int | None) -> tuple[float, float]:
    """CPU and wall seconds of one batch."""
    asked = torch.from_numpy(queries)
    wall, cpu = time.perf_counter(), time.process_time() + cpu_seconds(pid)
    gallery.search(asked, K).vectors  # noqa: B018
    return time.process_time() + cpu_seconds(pid) - cpu, time.perf_counter() - wall


def recall(gallery: Searchable, exact: Exact) -> float:
    """The share of the exact best ten that is found."""
    found = gallery.search(torch.from_numpy(exact.queries), K).ids
    pairs = zip(found, exact.best.tolist(), strict=True)
    return sum(len(set(row) & set(best)) for row, best in pairs) / exact.best.size


def resident() -> int:
    """Bytes of memory of this process that are no mapped files."""
    lines = Path(f"/proc/{os.getpid()}/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()
