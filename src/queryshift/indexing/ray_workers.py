"""Shards encoded on a Ray cluster by Ray Data: one task each, wherever there is room."""

from __future__ import annotations

import json
import math
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from queryshift.errors import BadInput, Error
from queryshift.galleries.memory.parquet_file import fixed_size_lists
from queryshift.support.optional import need

from .encode import Encoded
from .journal import BadRow, Receipt
from .plan import Shard
from .shard_workers import Job, check_loadable, in_worker

MOST_BLOCKS = 2_000  # more tasks than that cost Ray more than they spread


def on_ray(job: Job, shards: Sequence[Shard]) -> Iterator[Encoded]:
    """The shards on a cluster, as they finish; a task whose node dies is done again elsewhere.

    Engines on servers are written to by the tasks; for files the vectors come back here. Images
    and audio files must be found under the same paths on every node, and so must the model.
    """
    check_loadable(job.model)
    ray = need("ray", "ray", "building on a cluster")
    need("ray.data", "ray", "building on a cluster")
    here = str(Path.cwd())
    with _connected(ray, job.settings.ray or None):
        work = [{"work": pickle.dumps((here, job, shard))} for shard in shards]
        blocks = min(len(work), MOST_BLOCKS)
        encoded = ray.data.from_items(work, override_num_blocks=blocks).map_batches(
            _in_task,
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=1,
            num_gpus=1 if (job.settings.device or "").startswith("cuda") else 0,
            max_retries=-1,
        )
        for table in encoded.iter_batches(batch_size=None, batch_format="pyarrow"):
            for row in range(len(table)):
                yield _received(table.slice(row, 1), job.shape)


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """A connection to the cluster, which stays if it was there before."""
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


def _in_task(batch: Any) -> Any:
    """Encode a shard in a Ray task; return our own errors, since a retry cannot help."""
    started_in, job, shard = pickle.loads(batch.column("work")[0].as_py())
    with suppress(OSError):  # another machine may not have the folder
        os.chdir(started_in)
    try:
        return _sent(in_worker((job, shard)), job.shape)
    except Error as error:
        receipt = Receipt(shard.number, 0, ())
        return _sent(Encoded(receipt, (), None), job.shape, str(error))


def _sent(encoded: Encoded, shape: tuple[int, int], error: str = "") -> Any:
    """A shard as one row of Arrow; vectors are lists of one length, which Ray leaves alone."""
    arrow = need("pyarrow", "ray", "building on a cluster")
    vectors = torch.zeros((0, *shape)) if encoded.vectors is None else encoded.vectors
    rows = fixed_size_lists(vectors.reshape(len(vectors), math.prod(shape)).numpy())
    told = {
        "shard": encoded.receipt.shard,
        "rows": encoded.receipt.rows,
        "bad": encoded.receipt.bad,
        "ids": list(encoded.ids),
        "error": error,
    }
    return arrow.table(
        {
            "told": arrow.array([json.dumps(told)]),
            "vectors": arrow.ListArray.from_arrays(arrow.array([0, len(rows)], "int32"), rows),
        }
    )


def _received(row: Any, shape: tuple[int, int]) -> Encoded:
    told = json.loads(row.column("told")[0].as_py())
    if told["error"]:
        raise BadInput(told["error"])
    bad = tuple(BadRow(*one) for one in told["bad"])
    receipt = Receipt(told["shard"], told["rows"], bad)
    if not told["ids"]:
        return Encoded(receipt, (), None)
    flat = row.column("vectors").combine_chunks().flatten().flatten()
    vectors = torch.from_numpy(np.array(flat, dtype=np.float32))
    return Encoded(receipt, told["ids"], vectors.reshape(receipt.rows, *shape))
