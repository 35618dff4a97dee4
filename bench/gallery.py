"""Exact search beside a bare matrix product and top-k, and what REST adds, as the gallery grows.

python bench/gallery.py [--candidates 10000 100000 1000000] [--rounds 5]
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor
from torch.nn.functional import normalize
from towers import seconds

from queryshift import REST, Gallery, Hits
from queryshift.retrieval import Retrieval

DIMENSION, QUERIES, K = 256, 64, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    queries = normalize(torch.randn(QUERIES, DIMENSION, generator=generator), dim=1)
    print(f"{QUERIES} queries x {DIMENSION} dimensions, best {K}; CPU milliseconds of one thread")
    print("the floor of search is a bare matrix product and top-k; REST's own part has none")
    print(f"{'candidates':>12}{'bare':>9}{'search':>9}{'ratio':>8}{'REST beyond search':>20}")
    for count in options.candidates:
        vectors = torch.randn(count, DIMENSION, generator=generator)
        gallery = Gallery.from_vectors(range(count), vectors)
        plain = gallery.vectors[:, 0]
        gallery.centroids(K)
        bare = seconds(lambda p=plain: (queries @ p.T).topk(K, dim=1), options.rounds)
        search = seconds(lambda g=gallery: g.search(queries, K), options.rounds)
        hits = gallery.search(queries, K)
        beyond = seconds(lambda g=gallery, h=hits: losses(g, queries, h), options.rounds)
        print(
            f"{count:>12,}{1000 * bare:>9.1f}{1000 * search:>9.1f}{search / bare:>8.2f}"
            f"{1000 * beyond:>20.1f}",
            flush=True,
        )


def losses(gallery: Gallery, queries: Tensor, hits: Hits) -> Tensor:
    """Refinement, queue, losses and their derivative at the vectors: REST's own part of a step."""
    method = REST(temperature=0.02)
    seen = Retrieval(queries.detach().requires_grad_(), gallery, found={"hits": (K, hits)})
    memory = method.observe(seen, method.start(gallery, queries.device), 0)
    (slope,) = torch.autograd.grad(method.loss(seen, memory), seen.vectors)
    return slope


if __name__ == "__main__":
    main()
