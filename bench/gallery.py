"""Exact search beside a bare matrix product and top-k, and what REST adds, as the gallery grows.

    python bench/gallery.py [--device cpu|cuda] [--candidates 10000 100000 1000000] [--rounds 5]

64 queries of 256 dimensions, the best 10 of each; milliseconds: CPU time of one thread, on a GPU
the clock.
"""

from __future__ import annotations

import torch
from measuring import seconds
from rows import Rows, parser
from torch import Tensor
from torch.nn.functional import normalize

from queryshift import REST, Gallery, Hits
from queryshift.retrieval.forward import Forward

DIMENSION, QUERIES, K = 256, 64, 10
FLOOR = "of search, a bare matrix product and top-k; REST's own part has none"
COLUMNS = {"candidates": ",", "bare": ".2f", "search": ".2f", "ratio": ".2f", "REST beyond": ".2f"}


def main() -> None:
    asking = parser(__doc__, rounds=5)
    asking.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    asking.add_argument("--candidates", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    asked = asking.parse_args()
    torch.set_num_threads(1)
    rows = Rows(asked, FLOOR, COLUMNS)
    for count in asked.candidates:
        generator = torch.Generator().manual_seed(0)
        queries = normalize(torch.randn(QUERIES, DIMENSION, generator=generator), dim=1)
        vectors = torch.randn(count, DIMENSION, generator=generator)
        gallery = Gallery.from_vectors(range(count), vectors).to(asked.device)
        rows.add(measured(gallery, queries.to(asked.device), asked.rounds, asked.device))


def measured(gallery: Gallery, queries: Tensor, rounds: int, device: str) -> dict[str, float]:
    """One row: milliseconds, but for the ratio."""
    plain = gallery.vectors[:, 0]
    gallery.centroids(K)
    bare = seconds(lambda: (queries @ plain.T).topk(K, dim=1), rounds, device)
    search = seconds(lambda: gallery.search(queries, K), rounds, device)
    hits = gallery.search(queries, K)
    beyond = seconds(lambda: losses(gallery, queries, hits), rounds, device)
    times = {"bare": bare, "search": search, "REST beyond": beyond}
    return {
        "candidates": len(gallery),
        "ratio": search / bare,
        **{name: 1000 * time for name, time in times.items()},
    }


def losses(gallery: Gallery, queries: Tensor, hits: Hits) -> Tensor:
    """Refinement, queue, losses and their derivative at the vectors: REST's own part of a step."""
    method = REST(temperature=0.02)
    seen = Forward(queries.detach().requires_grad_(), gallery, hit_cache={"hits": (K, hits)})
    memory = method.observe(seen, method.start(gallery, queries.device), 0)
    (slope,) = torch.autograd.grad(method.loss(seen, memory), seen.vectors)
    return slope


if __name__ == "__main__":
    main()
