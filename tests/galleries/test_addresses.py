"""Addresses of galleries: what is read from one, and which engine opens it."""

import pytest

from queryshift import Gallery
from queryshift.errors import BadFile, BadInput
from queryshift.galleries.addresses import address_options, opener_of, split_address

KINDS = {"ef": int, "secure": int, "vector": str}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("qdrant://host/items", ("http://host:6333", "items", "", "", {})),
        ("qdrant://host:7/items", ("http://host:7", "items", "", "", {})),
        ("qdrant://host/a/b/items", ("http://host:6333/a/b", "items", "", "", {})),
        ("qdrant://host/items?secure=1&ef=9", ("https://host:6333", "items", "", "", {"ef": 9})),
        ("qdrant://host/items?secure=0", ("http://host:6333", "items", "", "", {})),
        ("qdrant://u%40x:p%2Fw@host/items", ("http://host:6333", "items", "u@x", "p/w", {})),
        ("qdrant://:word@host/items", ("http://host:6333", "items", "", "word", {})),
        ("qdrant:///a%20folder/items", ("/a folder", "items", "", "", {})),
        ("qdrant://host/items?vector=", ("http://host:6333", "items", "", "", {"vector": ""})),
    ],
)
def test_the_parts_of_an_address(address, expected):
    assert tuple(split_address(address, 6333, KINDS, "an example")) == expected


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("qdrant://host:port/items", "cannot be read, expected an example"),
        ("qdrant://host/", "names no collection, expected an example"),
        ("qdrant:///items", "names no collection"),
        ("qdrant://host", "names no collection"),
        ("qdrant://host/items?other=1", 'no option "other" in this address; known: ef, secure'),
        ("qdrant://host/items?ef=many", "ef='many', expected a whole number"),
    ],
)
def test_what_cannot_be_read_is_refused(address, said):
    with pytest.raises(BadInput, match=said):
        split_address(address, 6333, KINDS, "an example")


def test_options_have_their_types():
    assert address_options("ef=12&vector=12", KINDS) == {"ef": 12, "vector": "12"}


@pytest.mark.parametrize("path", ["items.gallery", "C:\\items", "a:b", "folder/2024:1/items"])
def test_paths_are_no_engines(path):
    assert opener_of(path) is None


def test_engines_and_tables_have_an_opener():
    assert opener_of("faiss:items.index") is not None
    assert opener_of("items.parquet") is not None
    with pytest.raises(BadInput, match="kind of gallery address"):
        opener_of("nothing://host/items")


def test_neither_a_file_nor_a_known_address_is_refused_with_the_known_kinds():
    with pytest.raises(BadFile, match=r'no file "fais:x".*or an address that begins with.*faiss'):
        Gallery.open("fais:x")
