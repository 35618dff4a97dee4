"""What a gallery is built into: a file that is put together at the end, or a search engine."""

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
    """Refuse candidates of several vectors where only one can be kept."""
    if layout.several > 1:
        raise BadInput(
            f"the model gives {layout.several} vectors per item, and {to} keeps one: "
            "build into a .safetensors file."
        )


class EngineTarget:
    """A collection at an address, which any process can write into if it is on a server.

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
        """Make the collection; all shards are lost where it has fewer rows than they."""
        one_vector_each(layout, f"a collection of {self._kind}")
        self._layout = layout
        there = self._writer.prepare(self._layout)
        rows = sum(receipt.rows for receipt in finished)
        if rows and (not there or self._writer.count() < rows):
            return {receipt.shard for receipt in finished}
        return set()

    def write(self, shard: int, ids: Sequence[Id], vectors: Tensor) -> None:
        """Store a shard's rows; those that are there already are replaced."""
        rows = vectors[:, 0].numpy()
        with_retries(lambda: self._writer.upsert(ids, rows), RETRIES, FIRST_WAIT)

    def finish(self, receipts: Sequence[Receipt]) -> None:
        """Index the rows, and see that all are there."""
        self._writer.finish(self._layout)
        rows, there = sum(receipt.rows for receipt in receipts), self._writer.count()
        if there < rows:
            raise EngineLost(
                f"the collection has {there:,} candidates, {rows:,} were written: were some "
                "removed? Build again with --restart."
            )

    def close(self) -> None:
        """Give the connection back."""
        if self._open is not None:
            self._open.close()

    @property
    def _writer(self) -> Writer:
        if self._open is None:
            self._open = self._make(self._to)
        return self._open

    def __getstate__(self) -> dict[str, Any]:
        """Leave the connection out: another process opens its own."""
        return {**vars(self), "_open": None}


class FileTarget:
    """Shards as files in the folder of the journal, and the file that is made of them.

    Args:
        path: The gallery's file.
        folder: Where shards wait.
        assemble: Makes the file.
    """

    workers_write = False

    def __init__(self, path: str, folder: Path, assemble: Assemble) -> None:
        self.path, self._folder, self._assemble = Path(path), folder, assemble
        self.layout: Layout

    def begin(self, layout: Layout, finished: Sequence[Receipt]) -> set[int]:
        """Refuse what the file cannot hold; shards whose file is gone are lost."""
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
        """Write the shard's file, whole or not at all."""
        write_gallery(self._file(shard), ids, vectors, None)

    def finish(self, receipts: Sequence[Receipt]) -> None:
        """Write the file of all shards, which takes the place of one of this name."""
        if not any(receipt.rows for receipt in receipts):
            raise BadInput("no item could be read, so that there is no gallery.")
        self._assemble(self, receipts)

    def close(self) -> None:
        """There is nothing to give back."""

    def shards(self, receipts: Sequence[Receipt]) -> Iterator[tuple[list[Id], Tensor]]:
        """Ids and vectors of each shard that has any, in their order."""
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
        """All ids, and all vectors (N, V, D) in a mapped file: they may not fit into memory."""
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
"""Where finished shards go; writing a shard again changes nothing.

`begin` refuses what cannot be kept and says which finished shards are lost; after `write` a shard
survives a kill; `workers_write` says whether any process, on any machine, can write.
"""


def target_for(to: str, journal: Path) -> Target:
    """The target at an address; shards wait in the journal's folder where it is a file."""
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
