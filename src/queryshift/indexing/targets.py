"""What a gallery is built into: a file that is put together at the end, or a search engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor

from queryshift.errors import BadInput
from queryshift.galleries.hits import Id
from queryshift.galleries.model_origin import ModelOrigin

from .journal import Receipt


@dataclass(frozen=True)
class Content:
    """What every candidate of a build is like.

    Args:
        origin: The model.
        several: Vectors per candidate.
        dimension: Length of a vector.
        whole_ids: Whether ids are whole numbers; else they are text.
        index: "exact" or "hnsw".
    """

    origin: ModelOrigin
    several: int
    dimension: int
    whole_ids: bool
    index: str


class Target(Protocol):
    """Where finished shards go. Writing a shard again changes nothing."""

    workers_write: bool
    """Whether any process, on any machine, can write into it."""

    def begin(self, content: Content, finished: Sequence[Receipt]) -> set[int]:
        """Make ready, or refuse what cannot be kept; which of the finished shards are lost."""

    def write(self, shard: int, ids: Sequence[Id], vectors: Tensor) -> None:
        """Keep a shard's vectors (N, V, D); when this returns, they survive a kill."""

    def finish(self, receipts: Sequence[Receipt]) -> None:
        """Make a gallery of all shards, in their order."""

    def close(self) -> None:
        """Give connections back."""


def target_for(to: str, journal: Path) -> Target:
    """The target at an address; shards wait in the journal's folder where it is a file."""
    from .engine_target import EngineTarget
    from .file_target import ASSEMBLERS, FileTarget

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


def one_vector_each(content: Content, to: str) -> None:
    """Refuse candidates of several vectors where only one can be kept."""
    if content.several > 1:
        raise BadInput(
            f"{content.origin.model} gives {content.several} vectors per item, and {to} keeps one: "
            "build into a .safetensors file."
        )
