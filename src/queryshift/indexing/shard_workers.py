"""Where shards are encoded: in this process, or in several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadInput
from queryshift.models import load
from queryshift.support.processes import lanes, processors

from .build_settings import BuildSettings
from .encode import Encoded, encode_shard
from .plan import Shard
from .targets import Target

_loaded: dict[str, Encoder] = {}
"""In a worker process: the encoder at hand, by the digest of its plan."""


@dataclass(frozen=True)
class Job:
    """What a worker must know: all but the shard.

    Args:
        plan: The digest of the plan.
        model: The model's name, or the function that makes it.
        modality: Which of its encoders.
        settings: The build's.
        shape: Vectors per item, and their length.
        target: Where the worker writes itself, if it does.
    """

    plan: str
    model: Any
    modality: str
    settings: BuildSettings
    shape: tuple[int, int]
    target: Target | None


def in_turn(encoder: Encoder, job: Job, shards: Iterable[Shard]) -> Iterator[Encoded]:
    """The shards one after another, in this process."""
    for shard in shards:
        yield worked(encoder, job, shard)


def in_processes(job: Job, shards: Iterable[Shard]) -> Iterator[Encoded]:
    """The shards in so many processes, as they finish."""
    check_loadable(job.model)
    with lanes(job.settings.processes) as processes:
        yield from processes.as_finished(in_worker, [[(job, shard)] for shard in shards])


def in_worker(work: tuple[Job, Shard]) -> Encoded:
    """A shard in a process that keeps the model for the next one."""
    job, shard = work
    if job.plan not in _loaded:
        import torch

        workers = job.settings.processes if job.settings.ray is None else processors()
        torch.set_num_threads(max(1, processors() // workers))
        _loaded.clear()
        _loaded[job.plan] = load(job.model, device=job.settings.device)[job.modality]
    return worked(_loaded[job.plan], job, shard)


def worked(encoder: Encoder, job: Job, shard: Shard) -> Encoded:
    """A shard encoded, and written where the worker is to write it."""
    encoded = encode_shard(encoder, shard, job.settings.batch_size, job.settings.strict)
    if job.target is None or encoded.vectors is None:
        return encoded
    with closing(job.target) as target:
        target.write(shard.number, encoded.ids, encoded.vectors)
    return Encoded(encoded.receipt, (), None)


def check_loadable(model: Any) -> None:
    """Refuse a model that another process cannot load."""
    if isinstance(model, Mapping) or not (isinstance(model, str | Path) or callable(model)):
        raise BadInput(
            f"got a {type(model).__name__} as the model, expected its name or a function of a "
            'module, "package.module:make", which every process can load.'
        )
