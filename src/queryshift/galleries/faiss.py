"""FAISS: an index in a file, searched in this process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadFile, BadInput
from queryshift.support.atomic_files import replacing
from queryshift.support.optional import need
from queryshift.support.paths import is_file
from queryshift.support.threads import lazy_property

from .addresses import address_options
from .candidate_checks import LOOKED_AT, checked_ids, plain_id
from .engine import EngineGallery
from .hits import Id
from .model_origin import ModelOrigin
from .searchable import SearchEffort
from .seen_candidates import Found, best_of_pieces

OVERSAMPLING = 10  # hits of a compressed index that are ranked again, per wanted hit
PIECE = 16_384  # vectors that an exact search compares at once


class Faiss(EngineGallery):
    """Candidates in a FAISS index: flat, HNSW, or IVF with or without compression.

    Other files next to the index: `PATH.ids.json`, a list with an id for each row (without it the
    index's own numbers are the ids); `PATH.origin.json`, the model that made the vectors; and
    `PATH.npy`, the vectors in float32, which stays on disk. An index with compressed vectors needs
    `PATH.npy`: ten times as many hits are ranked again by it, and losses never use decoded
    vectors.

    Args:
        path: The file of the index.
        ef: Breadth of an HNSW search; at least 256 for shifted queries.
        nprobe: Lists that an IVF search visits.

    Examples:
        >>> gallery = Faiss("captions.faiss")  # doctest: +SKIP
        >>> session = qs.Session(encoder, gallery, qs.REST())  # doctest: +SKIP
    """

    def __init__(self, path: str | Path, *, ef: int = 256, nprobe: int = 64) -> None:
        self._path, self._name = Path(path), f'"{path}"'
        self._faiss = need("faiss", "faiss", "a FAISS index")
        self._file = self._read()  # it owns the memory of the index inside it
        self._index, labels = self._unwrapped()
        super().__init__(self._index.d)
        self.search_effort = self._effort(ef, nprobe)
        self._rows = self._stored_rows()
        self._row_ids = self._stored_ids(labels)
        self._compressed = not self._keeps_floats()
        if self._compressed and self._rows is None:
            raise BadInput(
                f"{path} keeps only compressed vectors ({type(self._index).__name__}), which "
                f"mislead a loss: put the vectors in float32 beside it as {path}.npy."
            )
        if isinstance(self._index, self._faiss.IndexIVF) and self._rows is None:
            self._index.make_direct_map()
        self.exact = isinstance(self._index, self._faiss.IndexFlat)
        names = {self._faiss.METRIC_INNER_PRODUCT: "ip", self._faiss.METRIC_L2: "l2"}
        kind = self._index.metric_type
        self._check_stored(str(path), names.get(kind, f"number {kind} of FAISS"))
        beside = Path(f"{path}.origin.json")
        self.origin = ModelOrigin.from_text(beside.read_text()) if beside.is_file() else None

    def find(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """Find the best `count` candidates of each query, with their float32 vectors."""
        wanted = min(count * (OVERSAMPLING if self._compressed else 1), self.count())
        with self._fast_flat_search():
            _, rows = self._index.search(queries, wanted, params=self._parameters(wanted))
        return [
            self._best(query, row[row >= 0], count)
            for query, row in zip(queries, rows, strict=True)
        ]

    def find_exact(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """Find the exact best of each query, without the index."""
        starts = range(0, self.count(), PIECE)
        rows = (np.arange(start, min(start + PIECE, self.count())) for start in starts)
        pieces = ((self._ids_of(piece), self._vectors_of(piece)) for piece in rows)
        return best_of_pieces(queries, pieces, count)

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """Draw `count` vectors without bias, in the order of the index; all if there are fewer."""
        total = self.count()
        drawn = np.random.default_rng(seed).choice(total, min(count, total), replace=False)
        return self._vectors_of(np.sort(drawn))

    def rows(self) -> tuple[Sequence[Id], NDArray[np.float32]]:
        """Return all ids and vectors, in the order of the index."""
        places = np.arange(self.count())
        return self._row_ids or places.tolist(), self._vectors_of(places)

    def count(self) -> int:
        """Return the number of candidates."""
        return int(self._index.ntotal)

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Return the ids that are in the index."""
        if self._row_ids is not None:
            return self._known.intersection(ids)
        return {one for one in ids if isinstance(one, int) and 0 <= one < self.count()}

    @property
    def place(self) -> str:
        """The index's file."""
        return str(self._path.resolve())

    @property
    def version(self) -> str:
        """A digest of the ids and of a sample of the vectors."""
        content = hashlib.sha256(self.sample(LOOKED_AT, 0).tobytes())
        content.update(json.dumps(self._row_ids or self.count()).encode())
        return content.hexdigest()[:16]

    @lazy_property
    def _known(self) -> set[Id]:
        return set(self._row_ids or ())

    def _read(self) -> Any:
        if not is_file(self._path):
            raise BadFile(f'no FAISS index at "{self._path}": create it, or correct the address.')
        try:
            return self._faiss.read_index(str(self._path))
        except RuntimeError as error:
            raise BadFile(
                f'"{self._path}" is no index that FAISS {self._faiss.__version__} reads: write it '
                "again with faiss.write_index."
            ) from error

    def _unwrapped(self) -> tuple[Any, NDArray[np.int64] | None]:
        """Return the index inside an IndexIDMap, and the id numbers of its rows."""
        if not isinstance(self._file, self._faiss.IndexIDMap):
            return self._file, None
        labels = self._faiss.vector_to_array(self._file.id_map)
        return self._faiss.downcast_index(self._file.index), labels

    def _keeps_floats(self) -> bool:
        inner = self._index
        if isinstance(inner, self._faiss.IndexHNSW):
            inner = self._faiss.downcast_index(inner.storage)
        return isinstance(inner, self._faiss.IndexFlat | self._faiss.IndexIVFFlat)

    def _stored_ids(self, labels: NDArray[np.int64] | None) -> list[Id] | None:
        beside = Path(f"{self._path}.ids.json")
        if beside.is_file():
            return checked_ids(json.loads(beside.read_text()), self.count())
        return None if labels is None else [plain_id(label) for label in labels]

    def _stored_rows(self) -> NDArray[np.float32] | None:
        beside = Path(f"{self._path}.npy")
        if not beside.is_file():
            return None
        rows: NDArray[np.float32] = np.load(beside, mmap_mode="r")
        if rows.shape != (self.count(), self.dimension) or rows.dtype != np.float32:
            raise BadFile(
                f'"{beside}" holds {rows.dtype} of shape {rows.shape}, expected float32 of shape '
                f"{(self.count(), self.dimension)}, as the index has: write it again."
            )
        return rows

    def _parameters(self, wanted: int) -> Any:
        if self.search_effort is None:
            return None
        if self.search_effort.name == "ef":
            return self._faiss.SearchParametersHNSW(efSearch=max(self.search_effort.value, wanted))
        return self._faiss.SearchParametersIVF(nprobe=self.search_effort.value)

    def _effort(self, ef: int, nprobe: int) -> SearchEffort | None:
        if isinstance(self._index, self._faiss.IndexHNSW):
            return SearchEffort("ef", ef, self.count())
        if isinstance(self._index, self._faiss.IndexIVF):
            return SearchEffort("nprobe", min(nprobe, self._index.nlist), self._index.nlist)
        return None

    @contextmanager
    def _fast_flat_search(self) -> Iterator[None]:
        """Use matrix products for flat search at any batch size; FAISS does from 20 queries on."""
        settings = self._faiss.cvar
        before = settings.distance_compute_blas_threshold
        settings.distance_compute_blas_threshold = 1
        try:
            yield
        finally:
            settings.distance_compute_blas_threshold = before

    def _best(self, query: NDArray[np.float32], rows: NDArray[np.int64], count: int) -> Found:
        vectors = self._vectors_of(rows)
        if self._compressed:
            order = np.argsort(-(vectors @ query), kind="stable")[:count]
            rows, vectors = rows[order], vectors[order]
        return Found(self._ids_of(rows), vectors)

    def _ids_of(self, rows: NDArray[np.int64]) -> Sequence[Id]:
        places: list[int] = rows.tolist()
        return places if self._row_ids is None else [self._row_ids[place] for place in places]

    def _vectors_of(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        if self._rows is not None:
            return np.array(self._rows[rows])
        return cast("NDArray[np.float32]", self._index.reconstruct_batch(rows))


def open(address: str) -> Faiss:
    """Open the index at "faiss:PATH", or "faiss:PATH?ef=512&nprobe=128"."""
    path, _, query = address.removeprefix("faiss:").partition("?")
    return Faiss(path, **address_options(query, {"ef": int, "nprobe": int}))


def write_index(
    path: Path,
    ids: Sequence[Id],
    vectors: NDArray[np.float32],
    factory: str,
    origin: ModelOrigin | None = None,
) -> None:
    """Write an index and the files next to it; the index itself is written last."""
    faiss = need("faiss", "faiss", "a FAISS index")
    array = np.ascontiguousarray(vectors, dtype=np.float32)
    index = faiss.index_factory(array.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
    index.train(array)
    index.add(array)
    path.unlink(missing_ok=True)
    for ending in (".ids.json", ".origin.json", ".npy"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    Path(f"{path}.ids.json").write_text(json.dumps(checked_ids(ids, len(array))))
    if origin is not None:
        Path(f"{path}.origin.json").write_text(origin.as_text())
    if "SQ" in factory or "PQ" in factory:
        np.save(f"{path}.npy", array)
    with replacing(path) as temporary:
        faiss.write_index(index, str(temporary))
