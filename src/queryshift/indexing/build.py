"""Build a gallery from files of items, in shards that are recorded when they finish."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadInput, check_known, unknown
from queryshift.galleries.engine_writer import Layout
from queryshift.models import load
from queryshift.support.progress import counting

from .journal import BadRow, Journal
from .plan import Plan, Shard, plan
from .targets import Target, target_for
from .workers import Encoded, Job, encode_shard, in_processes, on_ray, worked

INDEXES = ("exact", "hnsw")


@dataclass(frozen=True)
class BuildSettings:
    """How a gallery is built.

    Args:
        modality: The encoder of the model; by default the one for the items, "image" for images.
        columns: The columns of a table by role, if they have other names.
        batch_size: Items that are encoded at once.
        shard_size: Items per shard; finished shards are recorded in the journal.
        processes: The number of processes that encode.
        ray: The address of a Ray cluster that encodes, "" for the one that Ray finds or starts.
        index: "exact", or "hnsw" for an approximate index, if the target is an engine.
        device: "cpu", "cuda", ...; by default the device that the model is loaded on.
        strict: Whether a bad item is an error; otherwise it is left out and reported.
        restart: Whether to start over instead of continuing a stopped build.
        journal: The journal's folder; by default next to the file, for an engine in the working
            folder.

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
        check_known("index", self.index, INDEXES)


@dataclass(frozen=True)
class Built:
    """The result of a build.

    Args:
        to: The file or address of the gallery.
        rows: The number of candidates.
        kept: How many of them an earlier run had encoded.
        bad: The items that were left out.
        seconds: The time it took.
    """

    to: str
    rows: int
    kept: int
    bad: tuple[BadRow, ...]
    seconds: float


DEFAULTS = BuildSettings()


def build_gallery(
    model: Any, items: Any, to: str | Path, settings: BuildSettings = DEFAULTS
) -> Built:
    """Encode items and store their vectors in a gallery that sessions can search.

    If it is stopped, even by `kill -9`, the same call continues: a journal records finished
    shards, and a shard that is written twice is stored once.

    Args:
        model: A model as `load` takes it: a name, a path, "package.module:make".
        items: A folder of images or audio files, a table (.jsonl, .csv, .tsv, .parquet, .txt), a
            list of such paths, or `{id: item}`.
        to: A file that ends in .safetensors or .parquet, "faiss:PATH", or the address of a
            collection in PostgreSQL, Milvus or Qdrant, which is created if it does not exist.
        settings: Batches, processes, Ray, and how to treat bad items.

    Returns:
        The number of candidates, and the items that were left out.

    Raises:
        BadInput: Items, model and target do not fit together, or the target has another unfinished
            build.

    Examples:
        >>> from pathlib import Path
        >>> import queryshift as qs
        >>> from queryshift.indexing import build_gallery
        >>> _ = Path("captions.txt").write_text("a red square\\na blue arrow\\n")
        >>> build_gallery("tangram", Path("captions.txt"), "captions.safetensors").rows
        2
        >>> qs.Gallery.open("captions.safetensors").dimension
        128
    """
    started = time.monotonic()
    planned = plan(items, settings.columns, settings.shard_size)
    encoders = load(model, device=settings.device)
    modality = _modality(settings.modality or planned.collection.modality, encoders)
    encoder = encoders[modality]
    digest = planned.digest(encoder.fingerprint(), str(to), settings.index)
    folder = settings.journal or _journal_folder(str(to))
    with (
        Journal(folder, digest, settings.restart) as kept,
        closing(target_for(str(to), folder)) as target,
    ):
        several, dimension = _probe(encoder, planned)
        layout = Layout(dimension, planned.whole_ids, settings.index, encoder.origin, several)
        _forget_lost(kept, target.begin(layout, list(kept.finished.values())))
        before = sum(receipt.rows for receipt in kept.finished.values())
        remote = target if target.workers_write else None
        job = Job(digest, model, modality, settings, remote)
        _encode_all(encoder, job, planned, kept, target)
        receipts = [kept.finished[number] for number in sorted(kept.finished)]
        target.finish(receipts)
        kept.remove()
    bad = tuple(row for receipt in receipts for row in receipt.bad)
    rows = sum(receipt.rows for receipt in receipts)
    return Built(str(to), rows, before, bad, time.monotonic() - started)


def _encode_all(encoder: Encoder, job: Job, planned: Plan, kept: Journal, target: Target) -> None:
    """Encode unfinished shards, and record each."""
    left = [shard for shard in planned.shards() if shard.number not in kept.finished]
    with counting("encoding", sum(len(shard.ids) for shard in left)) as more:
        for encoded in _executed(encoder, job, left):
            if encoded.vectors is not None:
                target.write(encoded.receipt.shard, encoded.ids, encoded.vectors)
            kept.add(encoded.receipt)
            more(encoded.receipt.rows + len(encoded.receipt.bad))


def _executed(encoder: Encoder, job: Job, shards: Sequence[Shard]) -> Iterator[Encoded]:
    """Encode shards here, in processes or on Ray, as the settings say."""
    if job.settings.ray is not None:
        return on_ray(job, shards)
    if job.settings.processes > 1 and len(shards) > 1:
        return in_processes(job, shards)
    return (worked(encoder, job, shard) for shard in shards)


def _modality(wanted: str, encoders: dict[str, Encoder]) -> str:
    """Return the modality of the encoder; a model with one encoder uses that one."""
    if wanted in encoders:
        return wanted
    if len(encoders) == 1:
        return next(iter(encoders))
    if wanted == "vector":
        raise BadInput(
            "got vectors, expected items to encode: vectors need no model, give them to "
            "qs.Gallery.from_vectors."
        )
    raise unknown("modality in this model", wanted, encoders)


def _journal_folder(to: str) -> Path:
    """Return a folder next to the file; for an engine a hash, as addresses may hold passwords."""
    if "://" in to:
        return Path(f"gallery-{blake2b(to.encode(), digest_size=6).hexdigest()}.building")
    return Path(f"{to.removeprefix('faiss:').partition('?')[0]}.building")


def _probe(encoder: Encoder, planned: Plan) -> tuple[int, int]:
    """Return vectors per item and their length, from the first readable item."""
    for alone in Plan(planned.collection, shard_size=1).shards():
        vectors = encode_shard(encoder, alone, batch_size=1).vectors
        if vectors is not None:
            return vectors.shape[1], vectors.shape[2]
    raise BadInput("none of the items can be read, so there is no gallery to build.")


def _forget_lost(kept: Journal, lost: set[int]) -> None:
    """Mark lost shards as unfinished."""
    if lost:
        left = [receipt for number, receipt in kept.finished.items() if number not in lost]
        kept.forget()
        for receipt in left:
            kept.add(receipt)
