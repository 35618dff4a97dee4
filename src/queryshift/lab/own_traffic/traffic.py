"""Traffic: queries in the order they came, a gallery, and the right answers that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadInput
from queryshift.galleries import Gallery
from queryshift.lab.corruptions import corrupt, find
from queryshift.lab.datasets.answers import answers_by_query, partners
from queryshift.lab.evaluation.runner.gallery_cache import content_hash, embedded
from queryshift.media.collection import Collection, as_collection
from queryshift.models import load

SEVERITY = 3


class VectorEncoder(Encoder):
    """Vectors as they are, of unit length: for queries that were embedded elsewhere."""

    def prepare(self, items: Sequence[Any]) -> Tensor:
        """The rows of a batch as one table."""
        return torch.from_numpy(np.asarray(items, dtype=np.float32))

    def forward(self, prepared: Tensor) -> Tensor:
        """The same vectors, scaled to unit length."""
        return torch.nn.functional.normalize(prepared, dim=1)


@dataclass(frozen=True)
class Shift:
    """A corruption of the queries: "gaussian_noise:3"."""

    name: str
    severity: int = SEVERITY

    @classmethod
    def read(cls, text: str) -> Shift:
        """The shift that a text stands for; severity 3 where it says none."""
        name, colon, severity = text.partition(":")
        if colon and not severity.isdigit():
            raise BadInput(f'got the shift "{text}", expected a name and 1 to 5: gaussian_noise:3.')
        return cls(name, int(severity) if colon else SEVERITY)


@dataclass(frozen=True, eq=False)
class Traffic:
    """All that methods are asked, made ready once."""

    model: str
    encoder: Encoder
    gallery: Gallery
    queries: Collection
    candidates: Collection
    matches: Sequence[Sequence[int]]  # by position, none for a query without a right answer
    shift: Shift | None
    seed: int

    @property
    def counted(self) -> list[int]:
        """The queries that have a right answer."""
        return [row for row, right in enumerate(self.matches) if right]

    def batch(self, rows: Sequence[int]) -> list[Any]:
        """Queries as they are asked, shifted where that was wished."""
        return [self.query(row) for row in rows]

    def query(self, row: int) -> Any:
        """One query as it is asked."""
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
) -> Traffic:
    """Read a user's data, load the model and embed the candidates, or find them in `folder`."""
    asked, candidates = as_collection(queries, columns), as_collection(gallery, columns)
    given = None if answers is None else answers_by_query(answers, columns)
    matches = partners(asked, candidates, given)
    wanted = None if shift is None else Shift.read(shift)
    if wanted is not None:
        find(asked.modality, wanted.name)  # before anything long begins
    encoders = {} if model is None else load(model)
    return Traffic(
        model=str(model or "vectors"),
        encoder=_encoder(encoders, asked.modality),
        gallery=_gallery(encoders, candidates, folder),
        queries=asked,
        candidates=candidates,
        matches=matches,
        shift=wanted,
        seed=seed,
    )


def _encoder(encoders: Mapping[str, Encoder], modality: str) -> Encoder:
    if modality == "vector":
        return VectorEncoder()
    if modality in encoders:
        return encoders[modality]
    if len(encoders) == 1:
        return next(iter(encoders.values()))
    known = ", ".join(sorted(encoders)) or "nothing: give a model, or vectors"
    raise BadInput(f"the items are {modality}, the model encodes {known}.")


def _gallery(encoders: Mapping[str, Encoder], items: Collection, folder: Path | None) -> Gallery:
    """The candidates embedded; ids are positions."""
    if items.modality == "vector":
        table = torch.from_numpy(np.asarray(items.items, dtype=np.float32))
        return Gallery.from_vectors(range(len(items)), table)
    encoder = _encoder(encoders, items.modality)
    if folder is None:
        return Gallery.build(encoder, items.items)
    return embedded(encoder, items.items, folder)[0].to(encoder.device)
