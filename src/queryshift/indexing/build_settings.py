"""How a gallery is built, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from queryshift.errors import BadInput, unknown

from .journal import BadRow

INDEXES = ("exact", "hnsw")


@dataclass(frozen=True)
class BuildSettings:
    """How a gallery is built.

    Args:
        modality: Which of the model's encoders; by default that of the items, "image" for images.
        columns: The columns of a table by role, where they have names of their own.
        batch_size: Items that are encoded at once.
        shard_size: Items after which the journal says that they are done.
        processes: How many encode.
        ray: The address of a Ray cluster that encodes, "" for the one that Ray finds or starts.
        index: "exact", or "hnsw" for an approximate index, where the target is an engine.
        device: "cpu", "cuda", ...; by default where the model is loaded.
        strict: Whether an item that cannot be read is an error; else it is left out and reported.
        restart: Whether to start over instead of continuing a build that was stopped.
        journal: The folder of what is done; beside the target, or here for an engine.

    Examples:
        >>> from queryshift.indexing import BuildSettings
        >>> BuildSettings(processes=4).batch_size
        64
    """

    modality: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    batch_size: int = 64
    shard_size: int = 1024
    processes: int = 1
    ray: str | None = None
    index: str = "exact"
    device: str | None = None
    strict: bool = False
    restart: bool = False
    journal: Path | None = None

    def __post_init__(self) -> None:
        for name in ("batch_size", "shard_size", "processes"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name} is {getattr(self, name)}, expected at least 1.")
        if self.index not in INDEXES:
            raise unknown("index", self.index, INDEXES)


@dataclass(frozen=True)
class Built:
    """What a build did.

    Args:
        to: Where the gallery is.
        rows: Its candidates.
        kept: Those of them that an earlier run had encoded.
        bad: The items that were left out.
        seconds: How long it took.
    """

    to: str
    rows: int
    kept: int
    bad: tuple[BadRow, ...]
    seconds: float
