"""What Milvus is asked for, and how its answers and errors are read, without a server."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from queryshift.errors import BadInput, EngineLost
from queryshift.galleries.engine_writer import Layout

pymilvus = pytest.importorskip("pymilvus")
grpc = pytest.importorskip("grpc")

from queryshift.galleries import milvus  # noqa: E402
from queryshift.galleries.milvus import Connection, Milvus, MilvusWriter, read_address  # noqa: E402

PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text(encoding="utf-8")


class Answers:
    """A connection to a collection of two candidates that keeps what it is asked."""

    def __init__(self, index="HNSW", version="2.3.0", vectors=("vector",)) -> None:
        self.index, self.version, self.vectors = index, version, vectors
        self.asked: list[tuple[str, dict]] = []
        self.error = ""

    def call(self, verb, *given, **options):
        self.asked.append((verb, options))
        if self.error and verb == "query":
            raise EngineLost(self.error)
        if verb == "describe_collection":
            kinds = {"id": "INT64", **dict.fromkeys(self.vectors, "FLOAT_VECTOR")}
            return {
                "fields": [
                    {
                        "name": name,
                        "type": SimpleNamespace(name=kind),
                        "is_primary": name == "id",
                        "params": {"dim": 2},
                    }
                    for name, kind in kinds.items()
                ]
            }
        if verb == "search":
            field = options["output_fields"][0]
            return [[{"id": 1, "entity": {field: [1.0, 0.0]}}] for _ in options["data"]]
        return {
            "get_server_version": self.version,
            "has_collection": True,
            "describe_index": {"metric_type": "COSINE", "index_type": self.index},
            "query": [{field: [1.0, 0.0] for field in self.vectors}] * 2,
        }.get(verb)

    def of(self, verb):
        return [options for name, options in self.asked if name == verb]

    def close(self):
        pass


@pytest.fixture
def opened(monkeypatch):
    def make(**about):
        answers = Answers(**about)
        monkeypatch.setattr(milvus, "Connection", lambda *_: answers)
        return answers

    return make


@pytest.mark.parametrize(
    ("index", "count", "params"),
    [
        ("HNSW", 10, {"ef": 256}),
        ("HNSW_SQ", 300, {"ef": 300}),
        ("DISKANN", 10, {"search_list": 256}),
        ("IVF_FLAT", 300, {"nprobe": 64}),
        ("FLAT", 10, {}),
    ],
)
def test_a_search_is_as_broad_as_the_page_says_in_the_words_of_the_index(
    opened, index, count, params
):
    answers = opened(index=index)
    Milvus("http://host", "items").find(np.eye(2, dtype=np.float32), count)
    assert "`ef` (default 256)" in PAGE and "`nprobe` (64;" in PAGE
    assert answers.of("search")[-1]["search_params"]["params"] == params


@pytest.mark.parametrize(
    ("count", "limit"), [(5, 5), (16_384, 16_384), (16_385, 16_384), (50_000, 16_384)]
)
def test_no_search_asks_for_more_rows_than_milvus_gives(opened, count, limit):
    answers = opened()
    Milvus("http://host", "items").find(np.eye(2, dtype=np.float32), count)
    assert answers.of("search")[-1]["limit"] == limit


@pytest.mark.parametrize(
    ("vectors", "named", "field"),
    [
        (("vector",), "", "vector"),
        (("vector",), "vector", "vector"),
        (("first", "second"), "second", "second"),
        (("first", "second"), "", None),
        (("first",), "second", None),
    ],
)
def test_one_of_several_vector_fields_must_be_named(opened, vectors, named, field):
    opened(vectors=vectors)
    if field is None:
        with pytest.raises(BadInput, match=f"fields {', '.join(vectors)}, got"):
            Milvus("http://host", "items", vector=named)
    else:
        made = Milvus("http://host", "items", vector=named)
        assert repr(made) == f'Milvus(collection="items", vector="{field}")'


@pytest.mark.parametrize(
    ("version", "refused"), [("v2.2.16", True), ("v2.3.0", False), ("3.0.1-beta", False)]
)
def test_the_oldest_server_is_that_of_the_page(opened, version, refused):
    opened(version=version)
    assert "Milvus 2.3 or" in PAGE
    if refused:
        with pytest.raises(BadInput, match=r"expected 2\.3 or later"):
            Milvus("http://host", "items")
    else:
        Milvus("http://host", "items")


@pytest.mark.parametrize(("error", "loads"), [("collection not loaded", 1), ("gone", 0)])
def test_a_collection_that_a_restart_unloaded_is_loaded_again(opened, error, loads):
    answers = opened()
    gallery = Milvus("http://host", "items")
    before, answers.error = len(answers.of("load_collection")), error
    with pytest.raises(EngineLost):
        gallery.count()
    assert len(answers.of("load_collection")) == before + loads


@pytest.mark.parametrize(
    ("address", "uri", "token"),
    [
        ("milvus://host/items", "http://host:19530", None),
        ("milvus://user:word@host:7/items?secure=1", "https://host:7", "user:word"),
        ("milvus://key@host/items", "http://host:19530", "key"),
        ("milvus:///folder/file.db/items", "/folder/file.db", None),
    ],
)
def test_an_address_is_of_the_port_that_the_page_names(address, uri, token):
    found, collection, options = read_address(address)
    assert "milvus://host:19530/collection" in PAGE
    assert (found, collection, options.get("token")) == (uri, "items", token)


@pytest.mark.parametrize("whole", [True, False])
def test_a_new_collection_has_the_ids_as_its_key(opened, whole):
    answers = opened()
    MilvusWriter("milvus://host/items").make(Layout(2, whole))
    key, vector = answers.of("create_collection")[0]["schema"].fields
    assert (key.name, key.is_primary, vector.is_primary) == ("id", True, False)
    if not whole:
        assert key.params["max_length"] == 65_535  # the longest that Milvus has


def test_many_rows_are_written_in_parts(opened, monkeypatch):
    answers = opened()
    monkeypatch.setattr(milvus, "SENT", 2)
    writer = MilvusWriter("milvus://host/items")
    writer.upsert(range(5), np.eye(5, dtype=np.float32))
    assert [[row["id"] for row in sent["data"]] for sent in answers.of("upsert")] == [
        [0, 1],
        [2, 3],
        [4],
    ]


class Failing:
    """A client whose calls fail with an error."""

    def __init__(self, error: Exception | None) -> None:
        self.error, self.closed = error, 0

    def has_collection(self, *_, timeout):
        if self.error is not None:
            raise self.error
        return timeout

    def close(self):
        self.closed += 1


class Rpc(grpc.RpcError):
    def __init__(self, code, details: str) -> None:
        super().__init__(details)
        self._code, self._details = code, details

    def code(self):
        return self._code

    def details(self):
        return self._details


@pytest.mark.parametrize(
    ("error", "kind", "said", "closed"),
    [
        (Rpc(grpc.StatusCode.DEADLINE_EXCEEDED, "late"), EngineLost, "more than the 7 seconds", 1),
        (Rpc(grpc.StatusCode.UNAVAILABLE, "no"), EngineLost, r"not answer \(no\)", 1),
        (Rpc(grpc.StatusCode.PERMISSION_DENIED, "permission"), BadInput, "Milvus refused", 0),
        (pymilvus.MilvusException(message="auth of u:w\n  more."), BadInput, r"of \*\*\*\)", 0),
        (pymilvus.MilvusException(message="w is late."), EngineLost, r"\(\*\*\* is late\)", 1),
        (ValueError("a closed channel"), EngineLost, r"\(a closed channel\)", 1),
    ],
)
def test_errors_are_one_line_without_the_password(monkeypatch, error, kind, said, closed):
    client = Failing(error)
    monkeypatch.setattr(pymilvus, "MilvusClient", lambda *_, **__: client)
    with pytest.raises(kind, match=said):
        Connection("http://host:19530", "u:w", 7.0).call("has_collection", "items")
    assert client.closed == closed


@pytest.mark.parametrize(
    ("token", "kept", "told"), [("", "", ""), ("", "kept", "kept"), ("given", "kept", "given")]
)
def test_the_token_is_that_of_the_address_or_of_the_environment(monkeypatch, token, kept, told):
    made = []
    monkeypatch.setenv("MILVUS_TOKEN", kept)
    monkeypatch.setattr(
        pymilvus, "MilvusClient", lambda uri, **how: made.append((uri, how)) or Failing(None)
    )
    connection = Connection("http://host:19530", token, 7.0)
    for _ in range(2):
        assert connection.call("has_collection", "items") == 7.0
    assert made == [("http://host:19530", {"token": told, "timeout": 7.0})]


def test_a_place_is_the_server_or_the_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Connection("http://host:19530", "", 1.0).place == "http://host:19530"
    assert Connection("file.db", "", 1.0).place == str(tmp_path.resolve() / "file.db")
