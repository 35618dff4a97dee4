"""Traffic: queries in the order they came, a gallery, and the right answers that are known.

`media/time_stamps.py` sorts the rows of a log by time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from traceback import walk_tb
from typing import Any

import numpy as np

import queryshift
from queryshift.encoders.encoder import Encoder
from queryshift.encoders.vectors import Vectors
from queryshift.errors import BadInput, BadItem, Error
from queryshift.galleries import Gallery, faiss
from queryshift.lab.corruptions import corrupt, find
from queryshift.lab.datasets.reading.matches import answers_by_query, partners
from queryshift.lab.evaluation.runner.gallery_cache import content_hash, embedded
from queryshift.media.bad_rows import BadRows
from queryshift.media.item_collection import Collection, as_collection
from queryshift.media.records import check_columns
from queryshift.models import load
from queryshift.support.progress import track

LIBRARY = Path(queryshift.__file__).parent


@contextmanager
def errors_named(encoder: Encoder) -> Iterator[None]:
    """Turn errors of a user's own encoder into `BadInput`, with the original error as cause."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        place = _place(encoder, error)
        if place is None:
            raise  # a mistake of the library's
        said = f"{type(error).__name__}: {error}".rstrip(": .")
        raise BadInput(
            f"{place} raised {said}. This is code of your own encoder: --traceback, or "
            "error.__cause__ in Python, shows where it fails."
        ) from error


def _place(encoder: Encoder, error: BaseException) -> str | None:
    """The encoder's method that failed, its file and line; None for code of the library."""
    kind = type(encoder)
    for frame, line in walk_tb(error.__traceback__):
        code = frame.f_code
        own = getattr(kind, code.co_name, None)
        file = Path(code.co_filename)
        if getattr(own, "__code__", None) is code and LIBRARY not in file.parents:
            return f"{kind.__name__}.{code.co_name} (line {line} of {file.name})"
    return None


SEVERITY = 3
AT_ONCE = 64  # items that are read
FIRST = 100  # vectors that say which length is right


@dataclass(frozen=True)
class Shift:
    """A corruption of the queries: "gaussian_noise:3"."""

    name: str
    severity: int = SEVERITY

    @classmethod
    def read(cls, text: str) -> Shift:
        """Parse "NAME" or "NAME:SEVERITY"; the default severity is 3."""
        name, colon, severity = text.partition(":")
        if colon and not severity.isdigit():
            raise BadInput(f'got the shift "{text}", expected a name and 1 to 5: gaussian_noise:3.')
        return cls(name, int(severity) if colon else SEVERITY)


@dataclass(frozen=True, eq=False)
class Traffic:
    """The queries and the gallery, prepared once for all methods."""

    model: str
    encoder: Encoder
    gallery: Gallery
    queries: Collection
    candidates: Collection
    matches: Sequence[Sequence[int]]  # by position, none for a query without a right answer
    shift: Shift | None
    seed: int
    bad: Sequence[BadRows]
    of_index: bool  # a search index, whose vectors were read into memory
    clicks: bool = False  # the matches are clicks, which need not be right

    @property
    def counted(self) -> list[int]:
        """The queries that have a right answer."""
        return [row for row, right in enumerate(self.matches) if right]

    @property
    def encoder_in_code(self) -> str:
        """Python for the encoder of the queries, as a sentence writes it."""
        vectors = isinstance(self.encoder, Vectors)
        return f"qs.Vectors({self.encoder.dimension})" if vectors else "encoder"

    def first(self, count: int) -> Traffic:
        """Only the first `count` queries."""
        rows = range(min(count, len(self.queries)))
        return replace(self, queries=self.queries.chosen(rows), matches=self.matches[: len(rows)])

    def batch(self, rows: Sequence[int]) -> list[Any]:
        """A batch of queries, corrupted if a shift is set."""
        return [self.query(row) for row in rows]

    def query(self, row: int) -> Any:
        """One query, corrupted if a shift is set."""
        item = self.queries.items[row]
        if self.shift is None:
            return item
        corruption = find(self.queries.modality, self.shift.name)
        name = str(self.queries.ids[row])
        return corrupt(item, corruption, self.shift.severity, seed=self.seed, item_id=name)

    @cached_property
    def content(self) -> str:
        """A hash of the data, the model and the shift."""
        parts = (
            content_hash(self.queries.items),
            content_hash(self.candidates.items),
            [list(right) for right in self.matches],
            self.encoder.fingerprint(),
            self.shift,
            self.seed,
        )
        return blake2b(repr(parts).encode(), digest_size=12).hexdigest()


def traffic(
    model: Any,
    gallery: Any,
    queries: Any,
    *,
    answers: Any = None,
    shift: str | None = None,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    folder: Path | None = None,
    strict: bool = False,
) -> Traffic:
    """Read a user's data, load the model and embed the candidates, or find them in `folder`.

    Rows that cannot be used are left out and counted in `bad`; with `strict` the first is an error.
    """
    bad_queries, bad_candidates, bad_matches = (
        BadRows(what, strict) for what in ("queries", "candidates", "matches")
    )
    check_columns(columns or {}, (queries, gallery, answers))
    asked = as_collection(queries, columns, bad=bad_queries)
    candidates = _candidates(gallery, columns, bad_candidates)
    wanted = None if shift is None else Shift.read(shift)
    if wanted is not None:
        _check_shift(wanted, asked.modality)  # before anything long begins
    given = None if answers is None else answers_by_query(answers, columns, bad_matches)
    encoders = {} if model is None else load(model)
    encoder = _encoder(encoders, "queries", asked.modality, candidates)
    other = _encoder(encoders, "candidates", candidates.modality, candidates)
    asked = readable(encoder, asked, bad_queries)
    candidates = readable(other, candidates, bad_candidates)
    return Traffic(
        model=str(model or "vectors"),
        encoder=encoder,
        gallery=_gallery(other, candidates, folder),
        queries=asked,
        candidates=candidates,
        matches=partners(asked, candidates, given, bad_matches),
        shift=wanted,
        seed=seed,
        bad=(bad_queries, bad_candidates, bad_matches),
        of_index=_is_index(gallery),
    )


def _check_shift(shift: Shift, modality: str) -> None:
    if modality == "vector":
        raise BadInput(
            f'got the shift "{shift.name}" for vectors, expected queries that can be corrupted: '
            "give images, texts or audio, and a model."
        )
    find(modality, shift.name)


def _candidates(gallery: Any, columns: Mapping[str, str] | None, bad: BadRows) -> Collection:
    """The candidates; those of a FAISS index are read into memory."""
    if not _is_index(gallery):
        return as_collection(gallery, columns, bad=bad)
    ids, vectors = faiss.open(f"faiss:{str(gallery).removeprefix('faiss:')}").rows()
    return Collection("vector", ids, list(vectors))


def _is_index(gallery: Any) -> bool:
    address = str(gallery) if isinstance(gallery, str | Path) else ""
    return address.startswith("faiss:") or address.endswith(".faiss")


def readable(encoder: Encoder, items: Collection, bad: BadRows) -> Collection:
    """The items that an encoder can read; every file is opened once."""
    total, rows, starts = len(items) + bad.count, list[int](), range(0, len(items), AT_ONCE)
    with errors_named(encoder):
        for start in track(starts, f"reading {bad.what}"):
            opened = {}
            for row in range(start, min(start + AT_ONCE, len(items))):
                with bad.skipping(repr(items.ids[row])):
                    opened[row] = _opened(items.items[row])
            rows += _prepared(encoder, opened, items.ids, bad)
    bad.check(total)
    return items if len(rows) == len(items) else items.chosen(rows)


def _opened(item: Any) -> Any:
    if isinstance(item, str) and not item.strip():
        raise BadInput("the text is empty: fill it in, or leave the row out.")
    return item


def _prepared(
    encoder: Encoder, opened: dict[int, Any], ids: Sequence[Any], bad: BadRows
) -> list[int]:
    """The rows that an encoder can prepare."""
    while opened:
        try:
            encoder.prepare(list(opened.values()))
            break
        except BadItem as error:
            row = list(opened)[error.index]
            del opened[row]
            bad.add(BadInput(error.reason), repr(ids[row]))
    return list(opened)


def _encoder(
    encoders: Mapping[str, Encoder], what: str, modality: str, candidates: Collection
) -> Encoder:
    if modality == "vector":
        return Vectors(_dimension(candidates))
    if modality in encoders:
        return encoders[modality]
    if len(encoders) == 1:
        return next(iter(encoders.values()))
    if not encoders:
        raise BadInput(
            f"the {what} are {modality}: name a model that encodes them, or give vectors."
        )
    raise BadInput(
        f"the {what} are {modality}, the model encodes {', '.join(sorted(encoders))}: "
        "give such items, or another model."
    )


def _dimension(candidates: Collection) -> int:
    """The length that most of the first vectors have."""
    lengths = Counter(np.shape(vector) for vector in candidates.items[:FIRST])
    shape, _ = lengths.most_common(1)[0]
    if len(shape) != 1 or not shape[0]:
        raise BadInput(
            f"the queries are vectors, the candidates {candidates.modality}: give vectors of both."
        )
    return int(shape[0])


def _gallery(encoder: Encoder, items: Collection, folder: Path | None) -> Gallery:
    """The candidates embedded; ids are positions."""
    if items.modality == "vector":
        return Gallery.from_vectors(range(len(items)), encoder.encode(items.items))
    with errors_named(encoder):
        if folder is None:
            return Gallery.build(encoder, items.items)
        return embedded(encoder, items.items, folder)[0].to(encoder.device)
