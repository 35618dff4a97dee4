"""Encode shards in this process, in several, or on a Ray cluster.

Bad items are left out and reported.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadFile, BadInput, BadItem, Error
from queryshift.galleries.candidate_checks import checked_vectors
from queryshift.galleries.hits import Id
from queryshift.models import load
from queryshift.support.optional import need
from queryshift.support.processes import lanes, processors
from queryshift.support.torch_modes import adaptation_modes

from .journal import BadRow, Receipt
from .plan import Shard
from .targets import Target

if TYPE_CHECKING:
    from .build import BuildSettings

_loaded: dict[str, Encoder] = {}
"""In a worker process: the loaded encoder, by the digest of its plan."""
MOST_BLOCKS = 2_000  # more tasks cost Ray more than they gain


@dataclass(frozen=True)
class Job:
    """Everything a worker needs, except the shard.

    Args:
        plan: The digest of the plan.
        model: The model's name, or the function that makes it.
        modality: The modality of its encoder.
        settings: The settings of the build.
        target: The target, if the worker writes into it itself.
    """

    plan: str
    model: Any
    modality: str
    settings: BuildSettings
    target: Target | None


@dataclass(frozen=True)
class Encoded:
    """An encoded shard: vectors (N, V, D), None if they are already written or there are none."""

    receipt: Receipt
    ids: Sequence[Id]
    vectors: Tensor | None


def in_processes(job: Job, shards: Iterable[Shard]) -> Iterator[Encoded]:
    """Encode shards in several processes; yield them as they finish."""
    check_loadable(job.model)
    with lanes(job.settings.processes) as processes:
        yield from processes.as_finished(in_worker, [[(job, shard)] for shard in shards])


def in_worker(work: tuple[Job, Shard]) -> Encoded:
    """Encode a shard in a process that keeps the model for the next one."""
    job, shard = work
    if job.plan not in _loaded:
        workers = job.settings.processes if job.settings.ray is None else processors()
        torch.set_num_threads(max(1, processors() // workers))
        _loaded.clear()
        _loaded[job.plan] = load(job.model, device=job.settings.device)[job.modality]
    return worked(_loaded[job.plan], job, shard)


def worked(encoder: Encoder, job: Job, shard: Shard) -> Encoded:
    """Encode a shard, and write it if the job has a target."""
    encoded = encode_shard(encoder, shard, job.settings.batch_size, job.settings.strict)
    if job.target is None or encoded.vectors is None:
        return encoded
    with closing(job.target) as target:
        target.write(shard.number, encoded.ids, encoded.vectors)
    return Encoded(encoded.receipt, (), None)


@adaptation_modes()
def encode_shard(encoder: Encoder, shard: Shard, batch_size: int, strict: bool = False) -> Encoded:
    """Encode a shard's items; with `strict`, the first bad item is an error."""
    ids: list[Id] = []
    parts: list[Tensor] = []
    bad: list[BadRow] = []
    for start in range(0, len(shard.ids), batch_size):
        rows = range(start, min(start + batch_size, len(shard.ids)))
        items = _opened(shard, rows, bad)
        vectors = _encoded(encoder, items, bad)
        if strict and bad:
            raise BadInput(f"item {bad[0].id!r}: {bad[0].reason}")
        if vectors is not None:
            ids += items
            parts.append(vectors.to("cpu", torch.float32))
    receipt = Receipt(shard.number, len(ids), tuple(bad))
    return Encoded(receipt, ids, torch.cat(parts) if parts else None)


def _opened(shard: Shard, rows: Sequence[int], bad: list[BadRow]) -> dict[Id, Any]:
    """Open the items of these rows; return them by id, without bad ones."""
    items: dict[Id, Any] = {}
    for row in rows:
        try:
            item = shard.items[row]
        except (BadFile, BadInput) as error:
            bad.append(BadRow(shard.ids[row], str(error)))
            continue
        if item is None or (isinstance(item, str) and not item.strip()):
            bad.append(BadRow(shard.ids[row], "it is empty."))
        else:
            items[shard.ids[row]] = item
    return items


def _encoded(encoder: Encoder, items: dict[Id, Any], bad: list[BadRow]) -> Tensor | None:
    """Encode items to vectors (N, V, D); remove items that the encoder refuses."""
    while items:
        try:
            vectors = encoder.encode(list(items.values()))
        except BadItem as error:
            _leave_out(items, [error.index], error.reason, bad)
            continue
        broken = ~torch.isfinite(vectors).flatten(1).all(dim=1)
        places = broken.nonzero().flatten().tolist()
        _leave_out(items, places, "its vector has NaN or infinite values.", bad)
        if items:
            return checked_vectors(vectors[~broken], rescale=False)
    return None


def _leave_out(items: dict[Id, Any], places: list[int], reason: str, bad: list[BadRow]) -> None:
    ids = list(items)
    for place in places:
        bad.append(BadRow(ids[place], reason))
        del items[ids[place]]


def check_loadable(model: Any) -> None:
    """Refuse a model that another process cannot load."""
    if not (isinstance(model, str | Path) or callable(model)):
        raise BadInput(
            f"got a {type(model).__name__} as the model, expected its name or a function of a "
            'module, "package.module:make", which every process can load.'
        )


def on_ray(job: Job, shards: Sequence[Shard]) -> Iterator[Encoded]:
    """Encode shards on a cluster; yield them as they finish. If a node dies, others take over.

    Tasks write into engines on servers themselves; for files the vectors come back here. Images,
    audio files and the model must have the same paths on all nodes.
    """
    check_loadable(job.model)
    ray = need("ray", "ray", "building on a cluster")
    need("ray.data", "ray", "building on a cluster")
    here = str(Path.cwd())
    with _connected(ray, job.settings.ray or None):
        work = [{"work": pickle.dumps((here, job, shard))} for shard in shards]
        blocks = min(len(work), MOST_BLOCKS)
        encoded = ray.data.from_items(work, override_num_blocks=blocks).map(
            _in_task,
            num_cpus=1,
            num_gpus=1 if (job.settings.device or "").startswith("cuda") else 0,
            max_retries=-1,
        )
        for row in encoded.iter_rows():
            done = pickle.loads(row["done"])
            if isinstance(done, str):
                raise BadInput(done)
            yield done


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """Connect to the cluster; disconnect at the end unless it was connected before."""
    before = ray.is_initialized()
    if not before:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    context = ray.data.DataContext.get_current()
    bars, context.enable_progress_bars = context.enable_progress_bars, False
    try:
        yield
    finally:
        context.enable_progress_bars = bars
        if not before:
            ray.shutdown()


def _in_task(row: dict[str, Any]) -> dict[str, bytes]:
    """Encode a shard in a Ray task; return our own errors as text, since a retry cannot help."""
    started_in, job, shard = pickle.loads(row["work"])
    with suppress(OSError):  # another machine may not have the folder
        os.chdir(started_in)
    try:
        done: Encoded | str = in_worker((job, shard))
    except Error as error:
        done = str(error)
    return {"done": pickle.dumps(done)}
