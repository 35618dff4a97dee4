"""Elasticsearch and OpenSearch, against a stand-in that answers as their reference says.

No real server was within reach: this holds what we send and how we read answers, not that they
take it.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch

import queryshift as qs
from queryshift.errors import BadInput, EngineLost, GalleryMismatch

pytestmark = pytest.mark.filterwarnings("ignore::queryshift.RecallWarning")
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
