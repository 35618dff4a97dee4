"""What adaptation costs, as ratios to plain forwards of the same code in the same run.

    python bench/adapt.py [--device cpu|cuda] [--tower tangram|vit] [--batch 64] [--rounds 3]

The floor of three steps is six forwards: each step runs one forward, and a product back through
frozen layers costs about one forward (no weight gradients). Decoupling adds one source forward per
batch and one product per step: ten.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from queryshift import REST, TCR, Decoupled, Encoder, Frozen, Gallery, Method, Session, Tent, load
from queryshift.datasets.tangram import tangram

METHODS: dict[str, tuple[Method, int]] = {
    "frozen": (Frozen(), 1),
    "tent": (Tent(), 6),
    "tcr": (TCR(), 6),
    "rest": (REST(), 6),
    "rest+decoupled": (REST(decouple=True), 10),
    "tent+decoupled": (Decoupled(Tent()), 10),
}


def tower(name: str, batch: int, device: str) -> tuple[Encoder, list[object], int]:
    """An encoder, a batch for it, and the dimension of its vectors."""
    if name == "tangram":
        world = tangram("image", count=batch)
        return load("tangram", device=device)["image"], list(world.queries), 128
    return vit(device), list(torch.rand(batch, 3, 224, 224)), 512


def vit(device: str) -> Encoder:
    """CLIP's ViT-B/16 image tower at 224 px with random weights."""
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    class Tower(Encoder):
        def __init__(self) -> None:
            super().__init__()
            config = CLIPVisionConfig(
                hidden_size=768,
                intermediate_size=3072,
                num_hidden_layers=12,
                num_attention_heads=12,
                patch_size=16,
                image_size=224,
                projection_dim=512,
            )
            self.tower = CLIPVisionModelWithProjection(config)

        def prepare(self, items: list[Tensor]) -> Tensor:
            return torch.stack(items)

        def forward(self, pixels: Tensor) -> Tensor:
            return torch.nn.functional.normalize(self.tower(pixels).image_embeds, dim=1)

    return Tower().to(device)


def seconds(call: Callable[[], object], rounds: int, device: str) -> float:
    """The quickest of some rounds: CPU time of one thread, which a busy machine distorts least."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    times = []
    for _ in range(rounds):
        started = clock()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(clock() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tower", default="tangram", choices=("tangram", "vit"))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--candidates", type=int, default=25_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    encoder, items, size = tower(options.tower, options.batch, options.device)
    vectors = torch.randn(options.candidates, size, generator=torch.Generator().manual_seed(0))
    gallery = Gallery.from_vectors(range(options.candidates), vectors).to(options.device)
    gallery.centroids(10)
    ready = encoder.ready(items)
    with torch.no_grad():
        plain = seconds(
            lambda: encoder.through(encoder.norm_params(), ready), options.rounds, options.device
        )
    print(f"{options.tower} tower on {options.device}, batch {options.batch}")
    print(f"{options.candidates:,} candidates of {size} dimensions")
    print(f"plain forward: {1000 * plain:.1f} ms\n")
    print(f"{'method':<16}{'ms per batch':>13}{'forwards':>10}{'floor':>7}{'over floor':>12}")
    for name, (method, floor) in METHODS.items():
        session = Session(encoder, gallery, method)
        session.answer(items)  # away from the source, shells and centroids made
        took = seconds(lambda s=session: s.answer(items).top(10), options.rounds, options.device)
        ratio = took / plain
        print(f"{name:<16}{1000 * took:>13.1f}{ratio:>10.2f}{floor:>7}{ratio / floor:>12.2f}")


if __name__ == "__main__":
    main()
