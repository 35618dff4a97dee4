"""A gallery in a file: shards are files of their own until all are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from queryshift.errors import BadFile, BadInput
from queryshift.galleries import faiss
from queryshift.galleries.hits import Id
from queryshift.galleries.memory import parquet_file
from queryshift.galleries.memory.gallery_file import read_gallery, write_gallery
from queryshift.support.optional import need

from .journal import Receipt
from .targets import Content, one_vector_each

Assemble = Callable[["FileTarget", Sequence[Receipt]], None]
FACTORIES = {"exact": "Flat", "hnsw": "HNSW32"}


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
        self.content: Content

    def begin(self, content: Content, finished: Sequence[Receipt]) -> set[int]:
        """Refuse what the file cannot hold; shards whose file is gone are lost."""
        self.content = content
        if self._assemble is not _safetensors:
            one_vector_each(content, f'"{self.path}"')
        if self._assemble is _parquet:
            need("pyarrow", "data", "a Parquet file")
        if self._assemble is _faiss:
            need("faiss", "faiss", "a FAISS index")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return {one.shard for one in finished if one.rows and not self._file(one.shard).is_file()}

    def write(self, shard: int, ids: Sequence[Id], vectors: Tensor) -> None:
        """Write the shard's file, whole or not at all."""
        write_gallery(self._file(shard), ids, vectors, self.content.origin.fingerprint)

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
                ids, vectors, *_ = read_gallery(
                    self._file(receipt.shard), verify=True, mapped=False
                )
                if len(ids) != receipt.rows:
                    raise BadFile(
                        f'"{self._file(receipt.shard)}" has {len(ids)} candidates, the journal '
                        f"says {receipt.rows}: build again with --restart."
                    )
                yield ids, vectors

    def joined(self, receipts: Sequence[Receipt]) -> tuple[list[Id], NDArray[np.float32]]:
        """All ids, and all vectors (N, V, D) in a mapped file: they may not fit into memory."""
        content, rows = self.content, sum(receipt.rows for receipt in receipts)
        shape = (rows, content.several, content.dimension)
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
    origin = target.content.origin
    write_gallery(target.path, ids, torch.from_numpy(vectors), origin.fingerprint, origin)


def _parquet(target: FileTarget, receipts: Sequence[Receipt]) -> None:
    shards = ((ids, vectors[:, 0].numpy()) for ids, vectors in target.shards(receipts))
    parquet_file.write_parquet(target.path, shards, target.content.origin)


def _faiss(target: FileTarget, receipts: Sequence[Receipt]) -> None:
    ids, vectors = target.joined(receipts)
    factory = FACTORIES[target.content.index]
    faiss.write_index(target.path, ids, vectors[:, 0], factory, target.content.origin)


ASSEMBLERS: Mapping[str, Assemble] = {
    ".safetensors": _safetensors,
    ".gallery": _safetensors,
    ".parquet": _parquet,
    "faiss": _faiss,
}
