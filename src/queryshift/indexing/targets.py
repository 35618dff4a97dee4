"""Targets of a build: a file, assembled from shards at the end, or a search engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from queryshift.errors import BadFile, BadInput, EngineLost
from queryshift.galleries import faiss
from queryshift.galleries.engine import with_retries
from queryshift.galleries.engine_writer import WRITERS, Layout, Writer
from queryshift.galleries.hits import Id
from queryshift.galleries.memory.gallery_file import read_gallery, write_gallery, write_parquet
from queryshift.support.optional import need

from .journal import Receipt

RETRIES, FIRST_WAIT = 4, 0.5  # seconds before the first retry; each further wait is twice as long
Assemble = Callable[["FileTarget", Sequence[Receipt]], None]
FACTORIES = {"exact": "Flat", "hnsw": "HNSW32"}


def one_vector_each(layout: Layout, to: str) -> None:
    """Refuse candidates with several vectors if the target stores one."""
    if layout.several > 1:
        raise BadInput(
            f"the model gives {layout.several} vectors per item, and {to} stores one: "
            "build into a .safetensors file."
        )


class EngineTarget:
    """A collection at an address; any process can write into it if it is on a server.

    Args:
        to: The address.
    """

    def __init__(self, to: str) -> None:
        self._to = to
        self._kind = to.partition(":")[0]
        self._make = WRITERS[self._kind]
        self.workers_write = bool(urlsplit(to).hostname) or self._kind.startswith("postgres")
        self._layout: Layout
        self._open: Writer | None = None

    def begin(self, layout: Layout, finished: Sequence[Receipt]) -> set[int]:
        """Create the collection; if it has fewer rows than the shards, all of them are lost."""
        one_vector_each(layout, f"a collection of {self._kind}")
        self._layout = layout
        there = self._writer.prepare(self._layout)
        rows = sum(receipt.rows for receipt in finished)
        if rows and (not there or self._writer.count() < rows):
            return {receipt.shard for receipt in finished}
        return set()

    def write(self, shard: int, ids: Sequence[Id], vectors: Tensor) -> None:
        """Store a shard's rows; existing ones are replaced."""
        rows = vectors[:, 0].numpy()
        with_retries(lambda: self._writer.upsert(ids, rows), RETRIES, FIRST_WAIT)

    def finish(self, receipts: Sequence[Receipt]) -> None:
        """Create the index, and check that all rows are stored."""
        self._writer.finish(self._layout)
        rows, there = sum(receipt.rows for receipt in receipts), self._writer.count()
        if there < rows:
            raise EngineLost(
                f"the collection has {there:,} candidates, {rows:,} were written: were some "
                "removed? Build again with --restart."
            )

    def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open.close()

    @property
    def _writer(self) -> Writer:
        if self._open is None:
            self._open = self._make(self._to)
        return self._open

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the connection: each process opens its own."""
        return {**vars(self), "_open": None}


class FileTarget:
    """Shards as files in the journal's folder, and the file assembled from them.

    Args:
        path: The gallery's file.
        folder: The folder of the shards' files.
        assemble: Writes the gallery's file.
    """

    workers_write = False

    def __init__(self, path: str, folder: Path, assemble: Assemble) -> None:
        self.path, self._folder, self._assemble = Path(path), folder, assemble
        self.layout: Layout

    def begin(self, layout: Layout, finished: Sequence[Receipt]) -> set[int]:
        """Refuse what the file cannot store; shards without their file are lost."""
        self.layout = layout
        if self._assemble is not _safetensors:
            one_vector_each(layout, f'"{self.path}"')
        if self._assemble is _parquet:
            need("pyarrow", "data", "a Parquet file")
        if self._assemble is _faiss:
            need("faiss", "faiss", "a FAISS index")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return {one.shard for one in finished if one.rows and not self._file(one.shard).is_file()}

    def write(self, shard: int, ids: Sequence[Id], vectors: Tensor) -> None:
        """Write the shard's file atomically."""
        write_gallery(self._file(shard), ids, vectors, None)

    def finish(self, receipts: Sequence[Receipt]) -> None:
        """Write the gallery's file, replacing an existing one."""
        if not any(receipt.rows for receipt in receipts):
            raise BadInput("no item could be read, so there is no gallery.")
        self._assemble(self, receipts)

    def close(self) -> None:
        """Nothing to close."""

    def shards(self, receipts: Sequence[Receipt]) -> Iterator[tuple[list[Id], Tensor]]:
        """Yield ids and vectors of each shard that has any, in order."""
        for receipt in sorted(receipts, key=lambda one: one.shard):
            if receipt.rows:
                file = self._file(receipt.shard)
                ids, vectors, *_ = read_gallery(file, verify=True, mapped=False)
                if len(ids) != receipt.rows:
                    raise BadFile(
                        f'"{file}" has {len(ids)} candidates, the journal '
                        f"says {receipt.rows}: build again with --restart."
                    )
                yield ids, vectors

    def joined(self, receipts: Sequence[Receipt]) -> tuple[list[Id], NDArray[np.float32]]:
        """Return all ids, and all vectors (N, V, D) in a mapped file: memory may be too small."""
        rows = sum(receipt.rows for receipt in receipts)
        shape = (rows, self.layout.several, self.layout.dimension)
        joined = np.lib.format.open_memmap(
            self._folder / "joined.npy", mode="w+", dtype=np.float32, shape=shape
        )
        ids: list[Id] = []
        for part, vectors in self.shards(receipts):
            joined[len(ids) : len(ids) + len(part)] = vectors.numpy()
            ids += part
        return ids, joined

    def _file(self, shard: int) -> Path:
        return self._folder / f"{shard:08}.safetensors"


def _safetensors(target: FileTarget, receipts: Sequence[Receipt]) -> None:
    ids, vectors = target.joined(receipts)
    origin = target.layout.origin
    fingerprint = None if origin is None else origin.fingerprint
    write_gallery(target.path, ids, torch.from_numpy(vectors), fingerprint, origin)


def _parquet(target: FileTarget, receipts: Sequence[Receipt]) -> None:
    shards = ((ids, vectors[:, 0].numpy()) for ids, vectors in target.shards(receipts))
    write_parquet(target.path, shards, target.layout.origin)


def _faiss(target: FileTarget, receipts: Sequence[Receipt]) -> None:
    ids, vectors = target.joined(receipts)
    factory = FACTORIES[target.layout.index]
    faiss.write_index(target.path, ids, vectors[:, 0], factory, target.layout.origin)


ASSEMBLERS: Mapping[str, Assemble] = {
    ".safetensors": _safetensors,
    ".gallery": _safetensors,
    ".parquet": _parquet,
    "faiss": _faiss,
}


Target: TypeAlias = EngineTarget | FileTarget
"""A target of a build; writing a shard twice changes nothing.

`begin` refuses what cannot be stored and returns the numbers of lost shards; after `write` a shard
survives a kill; `workers_write` says whether any process, on any machine, can write.
"""


def target_for(to: str, journal: Path) -> Target:
    """Return the target at an address; a file's shards are stored in the journal's folder."""
    kind, colon, _ = to.partition(":")
    if "://" in to:
        return EngineTarget(to)
    if colon and kind == "faiss":
        return FileTarget(to.removeprefix("faiss:").partition("?")[0], journal, ASSEMBLERS["faiss"])
    ending = Path(to).suffix.lower()
    if ending in ASSEMBLERS:
        return FileTarget(to, journal, ASSEMBLERS[ending])
    raise BadInput(
        f'cannot build into "{to}": expected a file that ends in .safetensors or .parquet, or the '
        "address of an engine (docs/galleries.md)."
    )
