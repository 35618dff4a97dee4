"""The gallery in memory: exact search, and a value that never changes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from miniature import DIMENSION, SeveralVectors, Toy, items
from queryshift import Gallery
from queryshift.errors import BadInput, GalleryMismatch
from queryshift.galleries.memory import exact_search
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.forward import Forward


def unit(*shape: int, seed: int = 0, dtype=torch.float32) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(*shape, generator=draw, dtype=torch.float64), dim=-1).to(dtype)


class TestBuilding:
    def test_build_encodes_with_the_source_parameters_in_batches(self, encoder, clean):
        built = Gallery.build(encoder, clean, batch_size=7)
        assert built.ids == list(range(60))
        assert torch.allclose(built.vectors[:, 0], encoder.encode(clean), atol=1e-6)
        assert built.fingerprint == encoder.fingerprint()
        assert (len(built), built.dimension) == (60, DIMENSION)

    def test_an_encoder_may_give_several_vectors_per_candidate(self, clean):
        built = Gallery.build(SeveralVectors(), clean)
        assert built.vectors.shape == (60, 3, DIMENSION)

    def test_vectors_that_exist_already_are_scaled_and_copied(self):
        given = torch.tensor([[3.0, 4.0], [0.0, -2.0]])
        gallery = Gallery.from_vectors(["a", "b"], given)
        given.zero_()
        assert torch.equal(gallery.vectors[:, 0], torch.tensor([[0.6, 0.8], [0.0, -1.0]]))

    @pytest.mark.parametrize("kind", [lambda v: v.numpy(), lambda v: v.tolist()])
    def test_arrays_and_lists_are_vectors_too(self, kind):
        vectors = unit(4, 3)
        assert torch.allclose(Gallery.from_vectors("abcd", kind(vectors)).vectors[:, 0], vectors)

    @pytest.mark.parametrize("kind", [lambda ids: ids, lambda ids: ids.numpy()])
    def test_ids_may_be_an_array(self, kind, tmp_path):
        gallery = Gallery.from_vectors(kind(torch.tensor([7, 5])), unit(2, 3))
        gallery.save(tmp_path / "kept")
        assert Gallery.load(tmp_path / "kept").positions([5]) == gallery.positions([5]) == [1]
        with pytest.raises(BadInput, match="the id 7 stands more than once"):
            Gallery.from_vectors(kind(torch.tensor([5, 7, 7])), unit(3, 3))

    @pytest.mark.parametrize("kind", [lambda row: row, lambda row: row.numpy()])
    def test_a_list_of_tensors_or_arrays_is_vectors_too(self, kind):
        vectors = unit(4, 3)
        rows = [kind(row) for row in vectors]
        assert torch.allclose(Gallery.from_vectors("abcd", rows).vectors[:, 0], vectors)

    def test_an_array_that_must_not_be_written_to(self):
        array = unit(4, 3).numpy()
        array.flags.writeable = False
        Gallery.from_vectors("abcd", array)  # torch would warn, and a warning fails the test

    def test_items_and_ids_may_come_one_by_one(self, encoder, clean):
        built = Gallery.build(encoder, iter(clean), ids=(f"c{row}" for row in range(60)))
        assert built.ids[59] == "c59"
        assert torch.equal(built.vectors, Gallery.build(encoder, clean).vectors)

    @pytest.mark.parametrize("vectors", [[[1.0, 2.0], [1.0]], "ab", [unit(3), unit(2)], [None] * 2])
    def test_what_makes_no_vectors_is_refused(self, vectors):
        with pytest.raises(BadInput, match=r"make no tensor.*\(candidates, dimensions\)"):
            Gallery.from_vectors("ab", vectors)

    @pytest.mark.parametrize("ids", [[Path("a.png"), Path("b.png")], [(1, 2), (3, 4)], [0.5, 1.5]])
    def test_ids_that_no_file_can_hold_are_refused(self, ids):
        with pytest.raises(BadInput, match="expected text or a whole number"):
            Gallery.from_vectors(ids, unit(2, 3))

    @pytest.mark.parametrize("ids", [2.5, 2])
    def test_ids_that_are_no_list_are_refused(self, ids):
        with pytest.raises(BadInput, match=f"got {ids} as ids, expected a list"):
            Gallery.from_vectors(ids, unit(2, 3))

    def test_vectors_of_another_shape_or_batches_of_nothing_are_refused(self, encoder, clean):
        with pytest.raises(BadInput, match=r"shape \(2, 3\).*Gallery\.from_vectors"):
            Gallery("ab", unit(2, 3))
        with pytest.raises(BadInput, match="batch_size is 0"):
            Gallery.build(encoder, clean, batch_size=0)

    def test_a_gallery_keeps_its_precision(self):
        for dtype in (torch.float64, torch.bfloat16):
            assert Gallery.from_vectors("abc", unit(3, 4, dtype=dtype)).vectors.dtype == dtype


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_a_memory_map_of_unit_vectors_is_not_copied(tmp_path, kind):
    vectors = normalize(torch.randn(300, 16, generator=torch.Generator().manual_seed(0)), dim=1)
    np.save(tmp_path / "unit.npy", vectors.numpy().astype(kind))
    np.save(tmp_path / "long.npy", 3 * vectors.numpy().astype(kind))
    unit, long = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("unit", "long"))
    gallery = Gallery.from_vectors(range(300), unit)
    assert gallery.vectors.data_ptr() == unit.ctypes.data
    scaled = Gallery.from_vectors(range(300), long)
    found, expected = (one.search(vectors[:20], 5) for one in (gallery, scaled))
    assert found.scores.dtype == torch.float32 and found.ids[3][0] == 3
    assert torch.allclose(found.scores, expected.scores, atol=2e-3)
    spoilt = np.array(unit)
    spoilt[7] = np.nan
    np.save(tmp_path / "spoilt.npy", spoilt)
    with pytest.raises(BadInput, match="candidate 7"):
        Gallery.from_vectors(range(300), np.load(tmp_path / "spoilt.npy", mmap_mode="r"))


def test_a_memory_map_of_one_vector(tmp_path):
    np.save(tmp_path / "one.npy", np.float32([[0, 2]]))
    gallery = Gallery.from_vectors(["a"], np.load(tmp_path / "one.npy", mmap_mode="r"))
    assert gallery.search(torch.tensor([[0.6, 0.8]]), 3).scores.tolist() == [
        [pytest.approx(0.8, abs=1e-6)]
    ]


class Doubled(Toy):
    """An encoder that forgets to normalise."""

    def forward(self, prepared):
        return 2 * super().forward(prepared)


def test_vectors_of_an_encoder_are_not_scaled_but_refused(clean):
    with pytest.raises(BadInput, match="length 2 to 2, expected unit length: normalise them"):
        Gallery.build(Doubled(), clean)


def test_batches_of_one_and_a_gallery_of_one(encoder, clean):
    built = Gallery.build(encoder, clean[:3], batch_size=1)
    assert torch.allclose(built.vectors[:, 0], encoder.encode(clean[:3]), atol=1e-6)
    assert Gallery.build(encoder, clean[:1]).ids == [0]


class TestSearch:
    @pytest.mark.parametrize("several", [1, 3])
    def test_is_exact_however_the_gallery_is_cut(self, several, monkeypatch):
        vectors, queries = unit(97, several, 6), unit(5, 6, seed=1)
        gallery = Gallery.from_vectors(range(97), vectors)
        scores = torch.einsum("bd,nvd->bnv", queries, vectors).amax(2)
        expected = scores.topk(9, dim=1)
        for chunk in (2**23, 5 * several * 10, 1):
            monkeypatch.setattr(exact_search, "CHUNK_SCORES", chunk)
            hits = gallery.search(queries, 9)
            assert torch.equal(hits.positions, expected.indices)
            assert torch.allclose(hits.scores, expected.values, atol=1e-6)
            assert torch.equal(hits.vectors, gallery.vectors[expected.indices])

    def test_more_than_there_are_gives_what_there_is(self):
        hits = Gallery.from_vectors("abc", unit(3, 4)).search(unit(2, 4), 10)
        assert hits.positions.shape == (2, 3)
        assert all(sorted(row) == ["a", "b", "c"] for row in hits.ids)

    @pytest.mark.parametrize("chunk", [2**23, 8])
    def test_excluded_pairs_never_meet(self, chunk, monkeypatch):
        monkeypatch.setattr(exact_search, "CHUNK_SCORES", chunk)
        gallery, queries = Gallery.from_vectors(range(20), unit(20, 4)), unit(2, 4, seed=1)
        best = gallery.search(queries, 3).positions
        hits = gallery.search(queries, 19, torch.tensor([[0, int(best[0, 0])]]))
        assert hits.positions.shape == (2, 19)
        assert int(best[0, 0]) not in hits.positions[0]
        assert torch.equal(hits.positions[0, :2], best[0, 1:])
        assert torch.equal(hits.positions[1, :3], best[1])
        assert torch.isfinite(hits.scores).all()

    def test_leaving_all_out_is_refused(self):
        everything = torch.tensor([[1, 0], [1, 1]])
        with pytest.raises(BadInput, match="all 2 candidates are excluded"):
            Gallery.from_vectors("ab", unit(2, 4)).search(unit(2, 4), 1, everything)

    def test_half_precision_is_searched_in_float32(self):
        vectors = unit(50, 8).bfloat16()
        gallery, queries = Gallery.from_vectors(range(50), vectors), unit(4, 8, seed=1)
        hits = gallery.search(queries.bfloat16(), 5)
        wide = queries.bfloat16().float() @ gallery.vectors[:, 0].float().T
        assert hits.scores.dtype == hits.vectors.dtype == torch.float32
        assert torch.equal(hits.positions, wide.topk(5).indices)

    @pytest.mark.parametrize("queries", [unit(2, 5), unit(8), unit(1, 1, 8)], ids=str)
    def test_vectors_that_are_no_queries_are_refused(self, queries):
        gallery = Gallery.from_vectors(range(9), unit(9, 8))
        with pytest.raises(GalleryMismatch, match=r"expected \(queries, 8\)"):
            gallery.search(queries, 3)

    @pytest.mark.parametrize(
        "exclude",
        [[[0, 1]], torch.tensor([[0.0, 1.0]]), torch.tensor([[0, 1, 2]]), torch.tensor([0, 1])],
        ids=str,
    )
    def test_exclusions_that_are_no_pairs_are_refused(self, exclude):
        gallery = Gallery.from_vectors(range(9), unit(9, 8))
        with pytest.raises(BadInput, match=r"as pairs to leave out, expected whole numbers"):
            gallery.search(unit(2, 8), 3, exclude)

    @pytest.mark.parametrize(
        "queries", [[[1.0] * 8], unit(2, 8).to("meta"), unit(2, 8).to_sparse()], ids=str
    )
    def test_queries_without_all_values_are_refused(self, queries):
        gallery = Gallery.from_vectors(range(9), unit(9, 8))
        with pytest.raises(BadInput, match="as query vectors, expected a tensor"):
            gallery.search(queries, 3)

    def test_hits_carry_no_graph(self):
        hits = Gallery.from_vectors("abc", unit(3, 4)).search(unit(2, 4).requires_grad_(), 2)
        assert not hits.scores.requires_grad

    def test_hits_have_ids_and_can_be_cut(self):
        gallery = Gallery.from_vectors("abc", torch.eye(3))
        hits = gallery.search(normalize(torch.tensor([[3.0, 2.0, 1.0]]), dim=1), 3)
        assert hits.ids == [["a", "b", "c"]]
        assert hits.top(2).ids == [["a", "b"]]
        assert len(hits.top(1)) == 1

    @pytest.mark.parametrize("count", [0, -1, 1.5, None, "3", True])
    def test_as_many_as_nobody_can_find_are_refused(self, count):
        gallery, queries = Gallery.from_vectors("abc", unit(3, 4)), unit(2, 4)
        answer = Answer(Forward(queries, gallery))
        answer.top(2)  # searched already, or not yet
        for ask in (
            answer.top,
            answer.top(2).top,
            Answer(Forward(queries, gallery)).top,
            lambda count: gallery.search(queries, count),
        ):
            with pytest.raises(BadInput, match=f"asked for {count!r} hits, expected a whole"):
                ask(count)

    def test_may_be_counted_by_numpy(self):
        gallery, queries = Gallery.from_vectors("abc", unit(3, 4)), unit(2, 4)
        assert Answer(Forward(queries, gallery)).top(np.int64(2)).positions.shape == (2, 2)


class _Largest(TorchDispatchMode):
    """The bytes of the largest tensor that any operation makes anew."""

    def __init__(self, *known: torch.Tensor):
        super().__init__()
        self.known, self.bytes = {one.data_ptr() for one in known}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for one in tree_leaves(made):
            if isinstance(one, torch.Tensor) and one.untyped_storage().data_ptr() not in self.known:
                self.bytes = max(self.bytes, one.untyped_storage().nbytes())
        return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("queries", [1, 64])
def test_search_makes_no_tensor_larger_than_its_bound(queries, dtype, monkeypatch):
    monkeypatch.setattr(exact_search, "CHUNK_SCORES", 2**16)
    monkeypatch.setattr(exact_search, "PIECE_VALUES", 2**16)
    gallery = Gallery.from_vectors(range(20_000), unit(20_000, 16, dtype=dtype))
    with _Largest(gallery.vectors) as largest:
        gallery.search(unit(queries, 16), 10)
    assert largest.bytes <= 4 * 2**16 * min(torch.get_num_threads(), exact_search.MOST_CHUNKS)


def test_centroids_of_a_large_gallery_copy_the_sample_only(monkeypatch):
    monkeypatch.setattr("queryshift.galleries.clusters.SAMPLE", 500)
    gallery = Gallery.from_vectors(range(20_000), unit(20_000, 16))
    with _Largest(gallery.vectors) as largest:
        gallery.centroids(4)
    assert largest.bytes <= 8 * 20_000  # the permutation the sample is drawn by


MEASURE = """
import resource, torch
from queryshift import Gallery
vectors = torch.empty(1_000_000, 1, 256).normal_(generator=torch.Generator().manual_seed(0))
vectors.div_(torch.linalg.vector_norm(vectors, dim=2, keepdim=True))
gallery = Gallery(range(len(vectors)), vectors)
queries = vectors[:64, 0].clone()
rss = lambda: int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
before = rss()
hits = gallery.search(queries, 10)
assert hits.positions[:, 0].tolist() == list(range(64))
gallery.centroids(10)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / 2**20)
"""


@pytest.mark.slow
def test_a_million_candidates_need_no_more_than_512_mb_beyond_their_vectors():
    ran = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) <= 512


class TestAsAValue:
    def test_add_gives_a_new_gallery(self, encoder, gallery):
        before = gallery.vectors.clone()
        more = gallery.add(encoder, items(3, seed=9), ids=["x", "y", "z"])
        assert (len(gallery), len(more)) == (60, 63)
        assert torch.equal(gallery.vectors, before)
        assert more.ids[-3:] == ["x", "y", "z"]
        assert torch.equal(more.vectors[60:, 0], encoder.encode(items(3, seed=9)))
        assert more.fingerprint == gallery.fingerprint

    def test_add_checks_that_the_same_encoder_makes_the_vectors(self, gallery):
        with pytest.raises(GalleryMismatch, match="not the encoder that built the gallery"):
            gallery.add(Toy(seed=1), items(1), ids=["x"])

    def test_a_gallery_of_foreign_vectors_takes_any_encoder(self, encoder):
        gallery = Gallery.from_vectors("ab", unit(2, DIMENSION))
        assert len(gallery.add(encoder, items(1), ids=["c"])) == 3

    def test_add_refuses_ids_that_are_there_and_vectors_of_another_size(self, encoder, gallery):
        with pytest.raises(BadInput, match="'c5' stands more than once"):
            gallery.add(encoder, items(1), ids=["c5"])
        with pytest.raises(GalleryMismatch, match=r"\(1, 5\) per candidate.*\(1, 8\)"):
            gallery.add_vectors(["x"], unit(1, 5))

    def test_vectors_that_exist_already_can_be_added(self):
        more = Gallery.from_vectors("ab", unit(2, 4)).add_vectors("c", 2 * unit(1, 4, seed=1))
        assert torch.allclose(more.vectors[2, 0], unit(1, 4, seed=1)[0])

    def test_remove_gives_a_new_gallery(self, gallery):
        less = gallery.remove(["c1", "c3"])
        assert (len(gallery), len(less)) == (60, 58)
        assert less.ids[:3] == ["c0", "c2", "c4"]
        assert torch.equal(less.vectors[1], gallery.vectors[2])
        assert less.positions(["c4"]) == [2]

    def test_remove_refuses_what_is_not_there_and_to_leave_nothing(self, gallery):
        with pytest.raises(BadInput, match=r"no candidate has the id 'dog'.*look like 'c0'"):
            gallery.remove(["dog"])
        for one in ("c1", 3):
            with pytest.raises(BadInput, match=r"got one id, .*expected a list of them"):
                gallery.remove(one)
        with pytest.raises(BadInput, match="empty gallery"):
            gallery.remove(gallery.ids)


def test_a_gallery_says_what_it_is():
    assert repr(Gallery.from_vectors(range(1200), unit(1200, 4))) == (
        "Gallery(1,200 candidates, 4 dimensions)"
    )
    several = Gallery.from_vectors("ab", unit(2 * 3, 4).view(2, 3, 4))
    assert repr(several) == "Gallery(2 candidates, 4 dimensions, 3 vectors each)"
