"""New collections in every engine, written and opened, for tests and benchmarks."""

from contextlib import closing
from pathlib import Path

import numpy as np

from queryshift import Gallery
from queryshift.galleries import faiss, qdrant
from queryshift.galleries.addresses import address_options
from queryshift.galleries.engine_writer import WRITERS, Layout

WRITTEN = 1_000  # points of a shard written at once


def create(address, ids, vectors, index="exact", metric=""):
    """Write vectors (N, D) into a new collection of Milvus, PostgreSQL or Qdrant, and open it."""
    array = np.ascontiguousarray(vectors, dtype=np.float32)
    whole_ids = all(isinstance(one, int) for one in ids)
    layout = Layout(array.shape[1], whole_ids, index or "exact", metric=metric)
    with closing(WRITERS[address.partition(":")[0]](address)) as writer:
        assert not writer.prepare(layout), f"{address} is there already"
        writer.upsert(ids, array)
        writer.finish(layout)
    return Gallery.open(address)


def create_faiss(address, ids, vectors, factory="Flat"):
    """Write an index file and open it. `factory` is FAISS's word: "HNSW32", "IVF1024,SQ8"."""
    path = address.removeprefix("faiss:").partition("?")[0]
    faiss.write_index(Path(path), ids, vectors, factory)
    return faiss.open(address)


def create_edge(address, ids, vectors, distance="Cosine", indexed=False):
    """Write a shard of Qdrant Edge and open it."""
    import qdrant_edge as edge

    folder, _, query = address.removeprefix("qdrant-edge:").partition("?")
    name = address_options(query, qdrant.EDGE_OPTIONS).get("vector", "")
    array = np.ascontiguousarray(vectors, dtype=np.float32)
    one = edge.EdgeVectorParams(array.shape[1], getattr(edge.Distance, distance))
    optimisers = edge.EdgeOptimizersConfig(indexing_threshold=1) if indexed else None
    hnsw = edge.HnswIndexConfig(m=32, ef_construct=256, full_scan_threshold=1) if indexed else None
    vector = {name: one} if name else one
    config = edge.EdgeConfig(vectors=vector, optimizers=optimisers, hnsw_config=hnsw)
    Path(folder).mkdir(parents=True)
    shard = edge.EdgeShard.create(folder, config)
    for start in range(0, len(array), WRITTEN):
        rows = zip(
            ids[start : start + WRITTEN], array[start : start + WRITTEN].tolist(), strict=True
        )
        points = [edge.Point(key, {name: row} if name else row) for key, row in rows]
        shard.update(edge.UpdateOperation.upsert_points(points))
    if indexed:
        shard.optimize()
    shard.close()
    return qdrant.open_edge(address)
