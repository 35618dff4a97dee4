"""The service under any settings and any body: a problem with a sentence, never a failure."""

import base64
import json
from io import BytesIO

import pytest
from fuzzing import attempt, fuzzed, note_refusal
from hostile_values import JSON, TEXTS, mostly
from hypothesis import strategies as st
from PIL import Image
from starlette.testclient import TestClient

from queryshift.serving.http.limits import Connections
from queryshift.serving.metrics import Metrics
from queryshift.serving.serve import make_app
from queryshift.serving.service import Service
from queryshift.serving.settings import read_settings


def picture() -> str:
    """A small grey picture in base64."""
    file = BytesIO()
    Image.new("RGB", (8, 8), "grey").save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


SMALL = '[collections.tangram]\ncandidates = 16\nmode = "live"\ngather = 2\n'
HOME = "/v1/collections/tangram"
WORDS = TEXTS | st.sampled_from(("a red square", "default", "x", "live"))
QUERIES = mostly(st.just({"image": picture()}), JSON)
BODIES = mostly(
    st.fixed_dictionaries(
        {},
        optional={
            "query": QUERIES,
            "queries": mostly(st.lists(QUERIES, min_size=1, max_size=3), JSON),
            "tenant": mostly(st.just("default"), JSON),
            "k": mostly(st.integers(1, 16), JSON),
            "adapt": mostly(st.just(False), JSON | st.booleans()),
            "exclude": mostly(st.none(), JSON),
            "mode": mostly(st.sampled_from(("live", "shadow")), JSON),
            "name": mostly(st.just("kept"), JSON),
            "corruption": mostly(st.just("ocr"), JSON),
            "severity": mostly(st.integers(1, 5), JSON),
            "compare": mostly(st.booleans(), JSON),
            "trial": mostly(st.booleans(), JSON),
            "request_id": mostly(TEXTS, JSON),
            "clicks": mostly(st.just([{"query": 0, "ids": [1, 1]}]), JSON),
        },
    ),
    JSON,
)
PATHS = (
    *("search", "corrupt", "ordinary", "tenants/default/mode", "tenants/default/snapshots"),
    *("tenants/default/feedback", "candidates/\u00b2", "candidates/--5"),
)
TABLES = ("", "[limits]\n", "[queues]\n", "[tenants]\n", "[collections.shop]\n", "[[tokens]]\n")
KEYS = st.sampled_from(
    ("host", "port", "data", "queries", "waiting", "gather", "method", "guard", "rate", "mode")
)
VALUES = st.sampled_from(
    ('"x"', "-1", "0", "nan", "inf", "9" * 30, "[]", "{}", "true", "1979-05-27", '"\\u0000"', "[")
)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The application, in this process."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "serve.toml").write_text(SMALL)
    settings = read_settings(folder / "serve.toml", data=folder / "data")
    metrics = Metrics()
    app = make_app(settings, Service(settings, metrics), metrics, Connections(1024))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


def told(answer) -> None:
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        note_refusal()
        assert len(answer.json()["detail"].split()) > 2, answer.text
        assert "Traceback" not in answer.text


@fuzzed(
    share=0.5,
    body=BODIES,
    path=st.sampled_from(PATHS),
    verb=st.sampled_from(("POST", "PUT", "GET")),
)
def test_any_body(body, path, verb, service):
    content = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    told(service.request(verb, f"{HOME}/{path}", content=content, headers=headers))


@fuzzed(
    body=st.binary(max_size=60),
    kind=st.sampled_from(("application/json", "multipart/form-data; boundary=x", "text/plain", "")),
)
def test_any_bytes(body, kind, service):
    told(service.post(f"{HOME}/search", content=body, headers={"content-type": kind}))


@fuzzed(
    share=0.5,
    tables=st.lists(
        st.tuples(st.sampled_from(TABLES), KEYS, VALUES | TEXTS.map(json.dumps)), max_size=3
    ),
    text=TEXTS,
)
def test_any_settings(tables, text, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    for written in ("".join(f"{table}{key} = {value}\n" for table, key, value in tables), text):
        path.write_bytes(written.encode("utf-8", "surrogatepass"))
        attempt(read_settings, path)
