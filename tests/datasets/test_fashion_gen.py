"""Fashion-Gen from the publisher's HDF5 file."""

import pickle
import sys

import numpy as np
import pytest

from queryshift.datasets import DATASETS
from queryshift.errors import BadFile, MissingExtra

FILE = "fashiongen_256_256_validation.h5"


@pytest.fixture
def root(tmp_path):
    """Three products, two of a category; one description is blank, one is not in ASCII."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / FILE, "w") as file:
        shades = np.arange(3, dtype=np.uint8)[:, None, None, None]
        file["input_image"] = np.broadcast_to(shades, (3, 8, 8, 3))
        texts = [[b"A coat.", b"  ", "Décolleté top.".encode("latin-1")]]
        file["input_description"] = np.array(texts).T
        file["input_category"] = np.array([[b"JACKETS & COATS", b"TOPS", b"TOPS"]]).T
    return tmp_path


def test_rows_are_pictures_descriptions_and_categories(root):
    dataset = DATASETS["fashion-gen"](root, query="text")
    assert dataset.queries == ["A coat.", "Décolleté top."]
    assert dataset.labels == ["JACKETS & COATS", "TOPS"]
    assert [list(right) for right in dataset.matches] == [[0], [2]]
    assert dataset.candidates[2].getpixel((0, 0)) == (2, 2, 2)
    assert dataset.left_out == ['caption 0 of "1" is blank.']
    assert dataset.counts == {"images": 3, "captions": 3, "pairs": 2, "categories": 2}


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
