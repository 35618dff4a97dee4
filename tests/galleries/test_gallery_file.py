"""Galleries on disk: the same gallery comes back, and nothing else does."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import normalize

from miniature import Toy, items, same
from queryshift import Gallery
from queryshift.errors import BadFile, BadInput, GalleryMismatch
from queryshift.galleries import candidate_checks
from queryshift.galleries.memory.gallery_file import write_parquet
from queryshift.galleries.model_origin import ModelOrigin
from queryshift.support.tensor_files import text_tensor, write
from tampering import loads_otherwise

OLD = Path(__file__).parents[1] / "data" / "format_1" / "toy.gallery"


def unit(*shape: int, seed: int = 0, dtype=torch.float32) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(*shape, generator=draw, dtype=torch.float64), dim=-1).to(dtype)


def parts(path: Path) -> tuple:
    """What a file's gallery is made of, in memory of its own."""
    gallery = Gallery.load(path, mapped=False)
    return gallery.ids, gallery.vectors, gallery.fingerprint


class TestFiles:
    def test_a_saved_gallery_is_the_same(self, tmp_path):
        for ids in (["a", "ü", "c"], [3, 1, 2]):
            gallery = Gallery.from_vectors(ids, unit(3, 2, 5).bfloat16())
            gallery.save(tmp_path / "kept.gallery")
            found = Gallery.load(tmp_path / "kept.gallery")
            assert found.ids == ids
            assert same(found.vectors, gallery.vectors)

    def test_the_fingerprint_is_kept(self, tmp_path, encoder, gallery):
        gallery.save(tmp_path / "kept")
        found = Gallery.load(tmp_path / "kept")
        assert len(found.add(encoder, items(1), ids=["new"])) == 61
        with pytest.raises(GalleryMismatch):
            found.add(Toy(seed=1), items(1), ids=["new"])

    def test_loaded_vectors_stay_on_disk_until_they_are_needed(self, tmp_path):
        Gallery.from_vectors(range(1000), unit(1000, 64)).save(tmp_path / "kept")
        found = Gallery.load(tmp_path / "kept")
        lies = found.vectors.data_ptr()
        maps = Path("/proc/self/maps").read_text().splitlines()
        spans = [line.split() for line in maps if line.endswith("/kept")]
        ends = [[int(end, 16) for end in span[0].split("-")] for span in spans]
        assert any(start <= lies < end for start, end in ends)

    def test_many_long_ids_fit(self, tmp_path):
        ids = [f"{number:064d}" for number in range(20_000)]
        Gallery.from_vectors(ids, unit(20_000, 2)).save(tmp_path / "kept")
        assert Gallery.load(tmp_path / "kept").ids == ids

    def test_foreign_cut_and_missing_files_are_refused(self, tmp_path, gallery):
        path = tmp_path / "kept"
        with pytest.raises(BadFile, match="there is no file"):
            Gallery.load(path)
        gallery.save(path)
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(BadFile, match="damaged or cut short"):
            Gallery.load(path)
        save_file({"vectors": unit(3, 1, 4)}, path)
        with pytest.raises(BadFile, match="of another program"):
            Gallery.load(path)

    @pytest.mark.parametrize("about", [{"ids": ["a"], "fingerprint": None}, {}, ["a", "b"]])
    def test_a_file_that_is_not_what_it_claims_is_refused(self, about, tmp_path):
        body = {"vectors": unit(2, 1, 4), "about": text_tensor(json.dumps(about))}
        save_file(body, tmp_path / "bad", metadata={"queryshift": "gallery"})
        with pytest.raises(BadFile):
            Gallery.load(tmp_path / "bad")

    @pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
    def test_flipped_bits_never_give_another_gallery(self, count, tmp_path):
        path = tmp_path / "kept"
        Gallery.from_vectors(["a", "ü", 3, 4], unit(4, 6)).save(path)
        assert loads_otherwise(path, count, seed=count, load=parts, same=same) == 0

    def test_what_is_read_into_memory_outlives_the_file(self, tmp_path, gallery):
        gallery.save(tmp_path / "kept")
        found = Gallery.load(tmp_path / "kept", mapped=False)
        (tmp_path / "kept").write_bytes(b"")
        assert same(found.vectors, gallery.vectors)

    def test_a_gallery_of_before_there_were_checksums_loads(self, gallery, encoder):
        found = Gallery.load(OLD)
        assert found.ids == gallery.ids
        assert torch.allclose(found.vectors, gallery.vectors, atol=1e-6)
        assert found.fingerprint == encoder.fingerprint()


class TestValues:
    """Files with a right checksum and wrong values: made by others, or before there was one."""

    @pytest.fixture
    def load(self, tmp_path):
        def load(vectors, verify=True, **about):
            about = {"ids": list(range(len(vectors))), "fingerprint": None, **about}
            write(tmp_path / "kept", "gallery", {"vectors": vectors}, about)
            return Gallery.load(tmp_path / "kept", verify=verify)

        return load

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, 7.0])
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_vectors_that_are_not_of_unit_length_are_refused(self, load, value, dtype, monkeypatch):
        monkeypatch.setattr(candidate_checks, "LOOKED_AT_ONCE", 64)  # several chunks
        vectors = unit(50, 2, 8, dtype=dtype)
        assert same(load(vectors).vectors, vectors)
        vectors[41, 1] = value
        with pytest.raises(BadFile, match=r'kept" holds no whole gallery \(candidate 41 has'):
            load(vectors)
        assert same(load(vectors, verify=False).vectors[:41], vectors[:41])

    def test_old_files_are_looked_at_too(self, tmp_path):
        about = text_tensor(json.dumps({"ids": ["a", "b"], "fingerprint": None}))
        body = {"vectors": 2 * unit(2, 1, 4), "about": about}
        save_file(body, tmp_path / "old", metadata={"queryshift": "gallery"})
        with pytest.raises(
            BadFile, match="candidate 0 has a vector of length 2, expected length 1"
        ):
            Gallery.load(tmp_path / "old")

    def test_vectors_of_other_types_and_shapes_are_refused(self, load):
        for vectors in (unit(3, 1, 4).int(), unit(3, 4), torch.empty(0, 1, 4)):
            with pytest.raises(BadFile, match="holds no whole gallery"):
                load(vectors)

    @pytest.mark.parametrize(
        ("about", "told"),
        [
            ({"ids": None}, "no list of ids"),
            ({"ids": "abc"}, "no list of ids"),
            ({"ids": [0, 1]}, "got 2 ids for 3"),
            ({"ids": [0, 1, 1]}, "more than once"),
            ({"ids": [0, 1, 2.5]}, "expected text or a whole number"),
            ({"ids": [0, 1, None]}, "expected text or a whole number"),
            ({"ids": [0, 2, True]}, "expected text or a whole number"),
            ({"ids": [0, 1, [2]]}, "expected text or a whole number"),
            ({"fingerprint": 3}, "which encoder made it"),
        ],
    )
    def test_parts_that_are_not_right_are_told(self, load, about, told):
        with pytest.raises(BadFile, match=told):
            load(unit(3, 1, 4), verify=False, **about)

    def test_a_file_without_a_fingerprint_says_so(self, tmp_path):
        write(tmp_path / "kept", "gallery", {"vectors": unit(1, 1, 4)}, {"ids": ["a"]})
        with pytest.raises(BadFile, match=r"does not say which encoder made it.*build it again"):
            Gallery.load(tmp_path / "kept")


class TestVectorsGiven:
    @pytest.mark.parametrize("scale", [1e-30, 1e30, 3e38])
    def test_vectors_of_any_length_become_unit_vectors(self, scale):
        vectors = unit(5, 4)
        rows = vectors.clone()
        rows[2] = rows[2] / rows[2].abs().max() * scale
        assert torch.allclose(
            Gallery.from_vectors(range(5), rows).vectors[:, 0], vectors, atol=1e-6
        )

    @pytest.mark.parametrize("make", [lambda rows: rows.to_sparse(), lambda rows: rows.to("meta")])
    def test_tensors_without_all_values_are_refused(self, make):
        with pytest.raises(BadInput, match="expected all of their values in memory"):
            Gallery.from_vectors(range(3), make(unit(3, 4)))


class TestParquet:
    def test_a_file_of_others_has_no_fingerprint(self, tmp_path):
        arrow = pytest.importorskip("pyarrow")
        table = arrow.table({"id": ["a", "b"], "vector": [[3.0, 4.0], [0.0, 2.0]]})
        pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "x.parquet")
        found = Gallery.open(tmp_path / "x.parquet")
        assert (found.ids, found.fingerprint, found.origin) == (["a", "b"], None, None)
        assert torch.allclose(found.vectors[:, 0], torch.tensor([[0.6, 0.8], [0.0, 1.0]]))

    def test_a_file_that_was_built_has_that_of_its_model(self, tmp_path):
        pytest.importorskip("pyarrow")
        origin = ModelOrigin("model", "text", {"text": "print"})
        write_parquet(tmp_path / "x.parquet", [(["a"], unit(1, 4).numpy())], origin)
        found = Gallery.open(tmp_path / "x.parquet")
        assert (found.fingerprint, found.origin, len(found)) == ("print", origin, 1)

    @pytest.mark.parametrize(
        ("columns", "told"),
        [
            ({"id": ["a"], "other": [[1.0]]}, "columns id, other and 1 rows"),
            ({"vector": [[1.0]]}, "columns vector and 1 rows"),
            ({"id": [], "vector": []}, "and 0 rows"),
        ],
    )
    def test_a_file_without_candidates_is_refused(self, tmp_path, columns, told):
        arrow = pytest.importorskip("pyarrow")
        path = tmp_path / "x.parquet"
        pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), path)
        with pytest.raises(BadFile, match=f"{told}, expected id and vector"):
            Gallery.open(path)
