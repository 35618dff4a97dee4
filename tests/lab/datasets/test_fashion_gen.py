"""Fashion-Gen from the publisher's HDF5 file."""

import pickle
import sys

import numpy as np
import pytest

from queryshift.errors import BadFile, MissingExtra
from queryshift.lab.datasets import DATASETS

FILE = "fashiongen_256_256_validation.h5"


@pytest.fixture
def root(tmp_path):
    """Three products, one seen from two sides; a description is blank, one is not in ASCII."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / FILE, "w") as file:
        shades = np.arange(4, dtype=np.uint8)[:, None, None, None]
        file["input_image"] = np.broadcast_to(shades, (4, 8, 8, 3))
        file["input_productID"] = np.array([[7, 8, 9, 7]]).T
        texts = [[b"A coat.", b"  ", "Décolleté top.".encode("latin-1"), b"A coat."]]
        file["input_description"] = np.array(texts).T
        categories = [[b"JACKETS & COATS", b"TOPS", b"TOPS", b"JACKETS & COATS"]]
        file["input_category"] = np.array(categories).T
    return tmp_path


def test_rows_are_pictures_descriptions_and_categories(root):
    dataset = DATASETS["fashion-gen"](root, query="text")
    assert dataset.queries == ["A coat.", "Décolleté top.", "A coat."]
    assert dataset.labels == ["JACKETS & COATS", "TOPS", "JACKETS & COATS"]
    assert dataset.candidates[2].getpixel((0, 0)) == (2, 2, 2)
    assert dataset.left_out == ['caption 0 of "1" is blank.']
    assert dataset.counts == {"images": 4, "captions": 4, "pairs": 3, "categories": 2}


def test_whatever_is_of_the_product_is_right(root):
    """Of equal descriptions none can be told from the others: one alone would always tie."""
    asked = DATASETS["fashion-gen"](root)
    assert asked.candidates == ["A coat.", "Décolleté top.", "A coat."]
    assert asked.query_ids == ["0", "2", "3"]
    assert asked.matches == [[0, 2], [1], [0, 2]]
    assert DATASETS["fashion-gen"](root, query="text").matches == [[0, 3], [2], [0, 3]]


def test_lazy_rows_go_to_other_processes(root):
    dataset = pickle.loads(pickle.dumps(DATASETS["fashion-gen"](root)))
    assert dataset.queries[1].getpixel((0, 0)) == (2, 2, 2)


def test_damaged_and_foreign_files_are_named(root):
    h5py = pytest.importorskip("h5py")
    with h5py.File(root / FILE, "a") as file:
        del file["input_category"]
    with pytest.raises(BadFile, match='has no "input_category"'):
        DATASETS["fashion-gen"](root)
    (root / FILE).write_bytes(b"not HDF5")
    with pytest.raises(BadFile, match="cannot be read as HDF5"):
        DATASETS["fashion-gen"](root)


def test_without_h5py_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / FILE).touch()
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtra, match=r"queryshift\[fashion\]"):
        DATASETS["fashion-gen"](tmp_path)
