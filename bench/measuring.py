"""Clocks, and the height of memory."""

from __future__ import annotations

import ctypes
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

Call = Callable[[], object]
WARM = 12  # calls before the clock counts: compilation, recordings, steps of a third of a batch


def seconds(call: Call, rounds: int, device: str = "cpu") -> float:
    """The quickest of some rounds."""
    if device == "cuda":
        call()  # kernels loaded, the allocator's memory grown
    return min(timed(call, device) for _ in range(rounds))


def timed(call: Call, device: str) -> float:
    """Seconds of one call: CPU time of one thread, which a busy machine distorts least."""
    started = clock(device)
    call()
    return clock(device) - started


def clock(device: str) -> float:
    """Seconds now; on a GPU by the clock on the wall, when all is done."""
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def warm(call: Call, device: str) -> None:
    """Call until nothing is done for the first time; on a CPU, where calls are dear, once."""
    for _ in range(WARM if device == "cuda" else 1):
        call()


def peak(call: Call, device: str = "cpu") -> float:
    """MiB that a call holds at its height, beyond what is held before it."""
    if device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    ctypes.CDLL(None).malloc_trim(0)  # what lies free is not to hide what a call needs (Linux)
    Path("/proc/self/clear_refs").write_text("5")  # the height is counted from here
    before = _status("VmRSS")
    call()
    return (_status("VmHWM") - before) / 1024


def held() -> int:
    """Bytes that the process has taken of the GPU, recordings included, without what lies free."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


def taken(call: Call, before: int) -> float:
    """MiB that the process has taken of the GPU beyond `before`, at a call's height."""
    held()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_reserved() - before) / 2**20


def waits(call: Call) -> int:
    """How often a call waits for the GPU, by torch's own count."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing CUDA operation" in str(one.message) for one in seen)


def profile(call: Call, device: str, rows: int = 30) -> str:
    """Where the time of one call goes, as torch's profiler tells it."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds) as seen:
        call()
        clock(device)
    found: str = seen.key_averages().table(sort_by=f"self_{device}_time_total", row_limit=rows)
    return found


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))
