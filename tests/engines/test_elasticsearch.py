"""Elasticsearch and OpenSearch, against a stand-in that answers as their reference says.

No real server was within reach: this holds what we send and how we read answers, not that they
take it.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

import queryshift as qs
from queryshift.errors import BadInput, EngineLost, GalleryMismatch
from queryshift.galleries import elasticsearch

pytestmark = pytest.mark.filterwarnings("ignore::queryshift.RecallWarning")
PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
IDS = [f"doc {number}" for number in range(60)]
STORED = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
STORED /= np.linalg.norm(STORED, axis=1, keepdims=True)
MAPPING = {
    "elasticsearch": {"type": "dense_vector", "dims": 8, "index": True, "similarity": "cosine"},
    "opensearch": {
        "type": "knn_vector",
        "dimension": 8,
        "method": {"name": "hnsw", "space_type": "cosinesimil", "engine": "lucene"},
    },
}


class StandIn(BaseHTTPRequestHandler):
    """An index "items" with the field "embedding"; refuses what the reference does not have."""

    dialect = "elasticsearch"
    status = 200
    about: dict = {}  # noqa: RUF012  (of the field, in place of the metric)
    asked: list = []  # noqa: RUF012

    def do_GET(self):
        self.answer({"real-name": {"mappings": {"properties": {"embedding": self.mapping()}}}})

    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        lines = [json.loads(line) for line in text.splitlines()]
        self.asked.append((self.path, self.headers.get("Authorization"), lines))
        if self.status != 200:
            self.answer({"error": "no"})
        elif self.path == "/items/_count":
            self.answer({"count": len(IDS)})
        elif self.path == "/items/_search":
            wanted = lines[0]["query"]["bool"]["filter"][1]["ids"]["values"]
            self.answer({"hits": {"hits": [{"_id": one} for one in wanted if one in IDS]}})
        else:
            assert (
                self.path == "/items/_msearch"
                and text.endswith("\n")
                and lines[::2] == [{}] * (len(lines) // 2)
            )
            self.answer({"responses": [self.searched(line) for line in lines[1::2]]})

    def mapping(self):
        if self.about:
            kept = ("type", "dims", "dimension")
            return {k: v for k, v in MAPPING[self.dialect].items() if k in kept} | self.about
        return MAPPING[self.dialect]

    def searched(self, line):
        query, size = line.get("query", {}), line["size"]
        if "function_score" in query:
            assert set(query["function_score"]["random_score"]) == {"seed", "field"}
            order = np.random.default_rng(0).permutation(len(IDS))
        elif "script_score" in query:
            params = query["script_score"]["script"]["params"]
            order = np.argsort(-STORED @ params["query_value"])
        elif self.dialect == "elasticsearch":
            knn = line["knn"]
            assert knn["field"] == "embedding" and size <= knn["k"] <= knn["num_candidates"]
            order = np.argsort(-STORED @ knn["query_vector"])[: knn["k"]]
        else:
            knn = query["knn"]["embedding"]
            assert knn["k"] == size and knn["method_parameters"]["ef_search"] >= size
            order = np.argsort(-STORED @ knn["vector"])[: knn["k"]]
        return {"hits": {"hits": [self.hit(row, line) for row in order[:size]]}}

    def hit(self, row, line):
        vector = {"embedding": STORED[row].tolist()}
        if self.dialect == "elasticsearch":
            assert line["_source"] is False and line["fields"] == ["embedding"]
            return {"_id": IDS[row], "fields": vector}
        assert line["_source"] == ["embedding"]
        return {"_id": IDS[row], "_source": vector}

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(params=["elasticsearch", "opensearch"])
def server(request):
    kind = type("One", (StandIn,), {"dialect": request.param, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        kind.address = f"{request.param}://127.0.0.1:{running.server_port}/items?field=embedding"
        yield kind
        running.shutdown()


def test_search_is_that_of_memory_and_one_request_a_batch(server):
    there, here = qs.Gallery.open(server.address), qs.Gallery.from_vectors(IDS, STORED)
    queries = torch.nn.functional.normalize(torch.randn(5, 8), dim=1)
    before = len(server.asked)
    assert there.search(queries, 7).ids == here.search(queries, 7).ids
    assert len(server.asked) == before + 1
    exact = there.find_exact(queries.numpy(), 7)
    assert [list(one.ids) for one in exact] == here.search(queries, 7).ids
    assert (len(there), there.dimension, there.metric) == (60, 8, "cosine")
    assert there.known([IDS[3], "none", 4]) == {IDS[3]}


def test_a_session_answers_over_it(server):
    session = qs.Session(qs.Vectors(8), qs.Gallery.open(server.address))
    found = session.answer(STORED[:9]).source.top(1).ids
    assert found == [[one] for one in IDS[:9]]


@pytest.mark.parametrize(
    ("given", "header"), [("u:secret@", "Basic dTpzZWNyZXQ="), (":key@", "ApiKey key")]
)
def test_credentials_are_sent_and_never_shown(server, given, header):
    gallery = qs.Gallery.open(server.address.replace("://", f"://{given}"))
    assert server.asked[-1][1] == header
    assert not any(word in f"{gallery!r} {gallery.place}" for word in ("secret", "key@"))


@pytest.mark.parametrize(
    ("dialect", "about", "metric"),
    [
        ("elasticsearch", {"index": True}, "cosine"),  # its default
        ("elasticsearch", {"similarity": "dot_product"}, "inner product"),
        ("elasticsearch", {"similarity": "l2_norm"}, "euclidean"),
        ("opensearch", {"index": True}, "euclidean"),  # its default
        ("opensearch", {"space_type": "innerproduct"}, "inner product"),
        ("opensearch", {"method": {"space_type": "innerproduct"}}, "inner product"),
        ("opensearch", {"method": {"name": "hnsw"}}, "euclidean"),
    ],
)
def test_the_metric_is_that_of_the_field(server, dialect, about, metric):
    if server.dialect == dialect:
        server.about = about
        assert qs.Gallery.open(server.address).metric == metric


def test_a_search_is_as_broad_as_ef_and_as_it_has_hits(server):
    query = np.eye(8, dtype=np.float32)[:1]
    for options, count, breadth in (("", 7, 256), ("&ef=5", 7, 7), ("&ef=9", 7, 9)):
        qs.Gallery.open(f"{server.address}{options}").find(query, count)
        line = server.asked[-1][2][1]
        knn = line.get("knn") or line["query"]["knn"]["embedding"]
        found = knn.get("num_candidates") or knn["method_parameters"]["ef_search"]
        assert (found, knn["k"], line["size"]) == (breadth, 7, 7)


def test_an_exact_search_is_a_script_of_the_dialect(server):
    qs.Gallery.open(server.address).find_exact(np.eye(8, dtype=np.float32)[:1], 3)
    script = server.asked[-1][2][1]["query"]["script_score"]["script"]
    said = {"elasticsearch": "painless", "opensearch": "knn"}
    assert script["lang"] == said[server.dialect]
    assert ("cosineSimilarity" in script["source"]) == (server.dialect == "elasticsearch")


def test_no_request_asks_for_more_than_ten_thousand_documents(server):
    gallery = qs.Gallery.open(server.address)
    assert "at most 10,000 hits" in PAGE.read_text(encoding="utf-8")
    for count, size in ((20, 20), (10_000, 10_000), (20_000, 10_000)):
        assert gallery.sample(count, 0).shape == (min(count, 60), 8)
        assert server.asked[-1][2][1]["size"] == size
        gallery.known([f"doc {row}" for row in range(count)])
        assert server.asked[-1][2][0]["size"] == size


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *((status, BadInput) for status in (400, 404, 430, 499)),
        *((status, EngineLost) for status in (429, 500, 503)),
    ],
)
def test_a_refusal_is_told_from_a_server_that_is_too_busy(server, status, error):
    gallery = qs.Gallery.open(server.address)
    server.status = status
    with pytest.raises(error, match=rf"\({status} "):
        gallery.count()


def test_a_key_of_the_environment_is_sent_where_the_address_has_none(server, monkeypatch):
    monkeypatch.setenv(f"{server.dialect.upper()}_API_KEY", "kept")
    qs.Gallery.open(server.address)
    assert server.asked[-1][1] == "ApiKey kept"
    qs.Gallery.open(server.address.replace("://", "://:given@"))
    assert server.asked[-1][1] == "ApiKey given"


def test_the_port_is_that_of_the_page_unless_the_address_names_one(monkeypatch):
    kind = elasticsearch.Elasticsearch
    monkeypatch.setattr(kind, "_about", lambda _: {"dims": 8})
    monkeypatch.setattr(kind, "_check_stored", lambda *_: None)
    assert "elasticsearch://host:9200/index" in PAGE.read_text(encoding="utf-8")
    for address, place in (("host", "http://host:9200"), ("host:7", "http://host:7")):
        opened = elasticsearch.open(f"elasticsearch://{address}/items?field=embedding")
        assert opened.place == f"{place}/items?field=embedding"


def test_what_goes_wrong_is_told(server, monkeypatch):
    gallery = qs.Gallery.open(server.address)
    with pytest.raises(GalleryMismatch, match='no field "sound" of type'):
        qs.Gallery.open(server.address.replace("embedding", "sound"))
    for wrong in (server.address.partition("?")[0], "elasticsearch:///items?field=a"):
        with pytest.raises(BadInput, match="expected elasticsearch://host:9200/index"):
            qs.Gallery.open(wrong)
    server.status = 401
    with pytest.raises(BadInput, match=r"refused \(401 .*credentials"):
        gallery.count()
    server.status = 503
    with pytest.raises(EngineLost, match=r"does not answer \(503"):
        gallery.count()
