"""Recorded forwards: the launches of a batch, and those of its way back, as one CUDA graph each.

A recording reads its inputs from tensors of its own and leaves its results in others. What it keeps
for the way back is overwritten by its next forward, so a later way back runs the forward once more.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from queryshift.encoders.adapted_parameters import Params
from queryshift.encoders.frozen_module import Replica
from queryshift.encoders.prepared import Prepared, count, each, tensors
from queryshift.errors import BadInput
from queryshift.support.priority import yielding
from queryshift.support.threads import alone
from queryshift.support.torch_modes import retain_compiled_graphs

Run = Callable[[Params, Prepared], Tensor]
RECORDED_AT = 3  # the time a shape is seen: before, blocks are compiled and odd shapes pass by
KEPT = 4  # shapes of one encoder and thread: each holds the memory of its batch
LARGEST = 128  # items: more of them keep a device busy by themselves, as when a gallery is built
WARM_UP = 2

_known: WeakKeyDictionary[Replica, Recordings] = WeakKeyDictionary()


def replayed(replica: Replica, run: Run, params: Params, shared: Prepared) -> Tensor:
    """What `run` gives, from a recording where the shapes have been seen often enough."""
    graph = torch.is_grad_enabled() and any(value.requires_grad for value in params.values())
    inputs = tuple(params.values()), tuple(tensors(shared))
    with torch.cuda.device_of(inputs[1][0]):  # type: ignore[no-untyped-call]
        recordings = _known.setdefault(replica, Recordings())  # a replica is one thread's own
        recording = recordings.of(run, params, shared, graph)
        if recording is None:
            return run(params, shared)
        if not graph:
            recording.forward(*inputs)
            return recording.vectors.clone()
        vectors: Tensor = _Replay.apply(recording, inputs[1], *inputs[0])  # type: ignore[no-untyped-call]
        return vectors


class Recordings:
    """Those of one encoder in one thread, by what goes in; the longest unused are dropped."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Hashable, int] = OrderedDict()
        self._kept: OrderedDict[Hashable, Recording] = OrderedDict()

    def of(self, run: Run, params: Params, shared: Prepared, graph: bool) -> Recording | None:
        """The recording for these shapes, made when they are seen often enough."""
        key = (graph, tuple(params), *map(_kind, params.values()), *map(_kind, tensors(shared)))
        if key not in self._kept:
            if count(shared) > LARGEST or self._times(key) < RECORDED_AT:
                return None
            with alone() as granted:
                if not granted:
                    del self._seen[key]  # again when it has come as often once more
                    return None
                while len(self._kept) >= KEPT:
                    self._kept.popitem(last=False)  # before: its memory is for the next one
                self._kept[key] = Recording(run, params, shared, graph)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _times(self, key: Hashable) -> int:
        self._seen[key] = self._seen.pop(key, 0) + 1
        while len(self._seen) > 16 * KEPT:
            self._seen.popitem(last=False)
        return self._seen[key]


class Recording:
    """One forward, and one product back through it if there is a graph."""

    @torch.inference_mode(False)
    def __init__(self, run: Run, params: Params, shared: Prepared, graph: bool) -> None:
        self.turn = 0
        self._params = {
            name: value.detach().clone().requires_grad_(graph) for name, value in params.items()
        }
        self._shared = each(shared, lambda tensor: tensor.detach().clone())
        with _undisturbed(), torch.set_grad_enabled(graph), retain_compiled_graphs():
            try:
                self._record(run, graph)
            except RuntimeError as error:
                raise BadInput(
                    "this encoder's forward cannot be recorded as a CUDA graph: load it without "
                    f"`cuda_graphs`. Torch says: {error}"
                ) from error

    def forward(self, params: tuple[Tensor, ...], shared: tuple[Tensor, ...]) -> int:
        """Run it with these; `vectors` is the result. Says which turn this was."""
        with torch.no_grad():
            if params:
                torch._foreach_copy_(list(self._params.values()), list(params))
            for input, given in zip(tensors(self._shared), shared, strict=True):
                input.copy_(given)
        self._play_forward()
        self.turn += 1
        return self.turn

    def backward(self, slopes: Tensor) -> list[Tensor | None]:
        """The product of these slopes and the latest forward, for each parameter it reaches."""
        self._slopes.copy_(slopes)
        self._play_backward()
        parts = iter(torch.split(self._gradient.clone(), self._sizes))
        both = zip(self._params.values(), self._reached, strict=True)
        return [next(parts).view_as(value) if reached else None for value, reached in both]

    def _record(self, run: Run, graph: bool) -> None:
        seen: list[Tensor] = []  # the latest vectors, with their graph

        def see() -> Tensor:
            seen[:] = [run(self._params, self._shared)]
            return seen[0]

        def product() -> tuple[Tensor | None, ...]:
            # the graph stays: a recorded product must not write where the next one reads
            leaves, slopes = tuple(self._params.values()), self._slopes
            return torch.autograd.grad(seen, leaves, slopes, retain_graph=True, allow_unused=True)

        def flat_product() -> Tensor:
            return torch.cat([part.reshape(-1) for part in product() if part is not None])

        def warm_up() -> None:
            for _ in range(WARM_UP):
                self._slopes = torch.zeros_like(see())
                gradient = product() if graph else ()
            self._reached = [part is not None for part in gradient]
            self._sizes = [part.numel() for part in gradient if part is not None]

        aside(warm_up)
        seen.clear()  # a leaf remembers the stream of the graph that it is part of
        # without a graph it is an answer, which takes priority
        vectors, self._play_forward, pool = record(see, first=not graph)
        if graph:
            self._gradient, self._play_backward, _ = record(flat_product, pool)
        self.vectors = vectors.detach()


class _Replay(torch.autograd.Function):
    """A recording as a step of torch's own graph."""

    @staticmethod
    def forward(
        ctx: Any, recording: Recording, shared: tuple[Tensor, ...], *params: Tensor
    ) -> Tensor:
        ctx.recording, ctx.inputs = recording, (params, shared)
        ctx.turn = recording.forward(params, shared)
        return recording.vectors.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Any, ...]:
        recording: Recording = ctx.recording
        if recording.turn != ctx.turn:
            ctx.turn = recording.forward(*ctx.inputs)
        return None, None, *recording.backward(slopes)


def aside(work: Callable[[], None]) -> None:
    """Whatever is done for the first time, done on another stream than the recording's."""
    here = torch.cuda.current_stream()
    beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    beside.wait_stream(here)
    with torch.cuda.stream(beside):
        work()
    here.wait_stream(beside)


def record(
    work: Callable[[], Tensor], pool: Any = None, first: bool = False
) -> tuple[Tensor, Callable[[], None], Any]:
    """What a CUDA graph of `work` writes to, how to play it, and its memory.

    Its kernels go `first` where others wait for the device too: a graph keeps the priority of the
    stream that it was recorded on.
    """
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream(priority=-1) if first else None  # type: ignore[no-untyped-call]
    mode = "thread_local"  # threads that no session knows of go on meanwhile
    torch._C._cuda_clearCublasWorkspaces()  # or what it plays in lies in an older graph's memory,
    with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode=mode):
        result = work()
    torch._C._cuda_clearCublasWorkspaces()  # or a later one's in ours: both may play at once
    return result, graph.replay, graph.pool()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Record in this thread alone, without pauses, and destroy no older graph meanwhile.

    Torch has one thread for the ways back of all others; what it records for several of them
    shares the memory that matrix products work in.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with yielding(0), torch.autograd.set_multithreading_enabled(False):
            yield
    finally:
        if collects:
            gc.enable()


def _kind(tensor: Tensor) -> Hashable:
    return tensor.dtype, tensor.shape
