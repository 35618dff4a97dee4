"""Draw training worlds on all cores, straight into memory the processes share."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from queryshift.lab import tangram
from queryshift.lab.tangram.model import text_ids
from queryshift.lab.tangram.scene_captions import COUNT
from queryshift.lab.tangram.towers import AUDIO_LENGTH, FRAMES, LONGEST_TEXT, SIDE

Arrays = dict[str, NDArray]
SHARD = 250


def scene_arrays(count: int) -> Arrays:
    arrays = {
        "pictures": _shared((count, SIDE, SIDE, 3), np.uint8),
        "captions": _shared((count, COUNT, LONGEST_TEXT), np.int16),
    }
    return _filled(arrays, _draw_scenes, count)


def clip_arrays(count: int) -> Arrays:
    arrays = {
        "frames": _shared((count, FRAMES, SIDE, SIDE, 3), np.uint8),
        "waveforms": _shared((count, AUDIO_LENGTH), np.float16),
    }
    return _filled(arrays, _draw_clips, count)


def edit_arrays(count: int) -> Arrays:
    arrays = {
        "references": _shared((count, SIDE, SIDE, 3), np.uint8),
        "sentences": _shared((count, LONGEST_TEXT), np.int16),
        "targets": _shared((count, SIDE, SIDE, 3), np.uint8),
    }
    return _filled(arrays, _draw_edits, count)


def on(device: str, arrays: Arrays) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


def padded(sentences: Sequence[str]) -> NDArray:
    ids = text_ids(sentences).numpy()
    return np.pad(ids, ((0, 0), (0, LONGEST_TEXT - ids.shape[1])))


def _draw_scenes(arrays: Arrays, start: int, stop: int) -> None:
    for row, scene in enumerate(tangram.scenes("train", stop - start, seed=start), start):
        arrays["pictures"][row] = scene.image()
        arrays["captions"][row] = padded(tangram.captions(scene))


def _draw_clips(arrays: Arrays, start: int, stop: int) -> None:
    for row, clip in enumerate(tangram.clips("train", stop - start, seed=start), start):
        arrays["frames"][row], arrays["waveforms"][row] = clip.frames(), clip.waveform()


def _draw_edits(arrays: Arrays, start: int, stop: int) -> None:
    edits = tangram.edits("train", stop - start, seed=start)
    arrays["sentences"][start:stop] = padded([edit.text for edit in edits])
    for row, edit in enumerate(edits, start):
        arrays["references"][row] = edit.reference.image()
        arrays["targets"][row] = edit.target.image()


def _shared(shape: tuple[int, ...], kind: type) -> NDArray:
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    return np.frombuffer(mmap.mmap(-1, size), kind).reshape(shape)


def _filled(arrays: Arrays, draw: Callable[[Arrays, int, int], None], count: int) -> Arrays:
    """Each process draws every n-th shard; a shard's first index is its seed."""
    processes = os.cpu_count() or 1
    fork = multiprocessing.get_context("fork")
    workers = [
        fork.Process(target=partial(_share, arrays, draw, count, worker, processes), daemon=True)
        for worker in range(processes)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit("drawing the training world failed")
    return arrays


def _share(arrays: Arrays, draw: Callable, count: int, worker: int, processes: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its own
    for start in range(worker * SHARD, count, processes * SHARD):
        draw(arrays, start, min(start + SHARD, count))
