"""What the benchmarks share: encoders with a batch for each, clocks, and the peak of memory."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from queryshift import Encoder, Gallery, load
from queryshift.datasets.tangram import tangram
from queryshift.models.blocks import BlockEncoder

TOWERS = ("tangram", "vit")
DIMENSIONS = {"tangram": 128, "vit": 256}


class ViT(BlockEncoder):
    """CLIP's ViT-B/16 image tower with random weights, 256 dimensions out."""

    block_list = "tower.vision_model.encoder.layers"

    def __init__(self, side: int) -> None:
        from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

        super().__init__()
        sizes = {"hidden_size": 768, "intermediate_size": 3072, "projection_dim": 256}
        depth = {"num_hidden_layers": 12, "num_attention_heads": 12}
        with torch.random.fork_rng():
            torch.manual_seed(0)
            config = CLIPVisionConfig(patch_size=16, image_size=side, **sizes, **depth)
            self.tower = CLIPVisionModelWithProjection(config)

    def prepare(self, items: list[Tensor]) -> Mapping[str, Tensor]:
        return {"pixel_values": torch.stack(items)}

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        return self.tower(prepared["pixel_values"]).image_embeds


def tower(name: str, batch: int, device: str, side: int = 224) -> tuple[Encoder, list[object]]:
    """An encoder and a batch for it."""
    if name == "tangram":
        return load("tangram", device=device)["image"], list(tangram("image", count=batch).queries)
    pictures = torch.rand(batch, 3, side, side, generator=torch.Generator().manual_seed(0))
    return ViT(side).to(device), list(pictures)


def random_gallery(name: str, candidates: int, device: str) -> Gallery:
    """Random candidates for a tower, their centroids known."""
    draw = torch.Generator().manual_seed(0)
    vectors = torch.randn(candidates, DIMENSIONS[name], generator=draw)
    gallery = Gallery.from_vectors(range(candidates), vectors).to(device)
    gallery.centroids(10)
    return gallery


def seconds(call: Callable[[], object], rounds: int, device: str = "cpu") -> float:
    """The quickest of some rounds."""
    return min(timed(call, device) for _ in range(rounds))


def timed(call: Callable[[], object], device: str) -> float:
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


def peak(call: Callable[[], object], device: str = "cpu") -> float:
    """MiB that a call holds at its height, beyond what is held before it."""
    if device == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    ctypes.CDLL(None).malloc_trim(0)  # what lies free is not to hide what a call needs (Linux)
    Path("/proc/self/clear_refs").write_text("5")  # the height is counted from here
    before = _status("VmRSS")
    call()
    return (_status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))
