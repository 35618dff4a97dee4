"""What a server refuses is problem+json in the library's own sentences."""

import asyncio
import json
import time
from contextlib import nullcontext

import pytest
from queries_to_send import SEARCH, TENANTS, query

from queryshift.serving.errors import Forbidden
from queryshift.serving.http.access import OriginCheck
from queryshift.serving.settings import ServeSettings

HTTP = "/v1/collections"
CASES = [
    ("GET", f"{HTTP}/shop", None, 404, 'no collection "shop"'),
    ("GET", f"{TENANTS}/nobody", None, 404, 'no tenant "nobody"'),
    ("GET", f"{TENANTS}/..%2F..%2Fetc", None, 404, ""),
    ("GET", f"{TENANTS}/a%20b", None, 422, "tenant"),
    ("GET", f"{TENANTS}?after=%00", None, 422, "after: "),
    ("GET", "/nowhere", None, 404, "not found"),
    ("DELETE", f"{TENANTS}/nobody", None, 404, "there is no tenant"),
    ("DELETE", SEARCH, None, 405, "not allowed"),
    ("POST", SEARCH, {"query": {}}, 422, "got a query of nothing, expected image"),
    ("POST", SEARCH, {"query": {"text": "a"}}, 422, "got a query of text, expected image"),
    ("POST", SEARCH, {}, 422, "got no query"),
    ("POST", SEARCH, {"query": {"image": "no base64!"}}, 422, "no base64"),
    ("POST", SEARCH, {"query": {"image": "http://x/y.png"}}, 422, "addresses are not fetched"),
    ("POST", SEARCH, {"query": query(1), "k": 0}, 422, "k: "),
    ("POST", SEARCH, {"query": query(1), "k": 100_000}, 422, "at most 1000"),
    ("POST", SEARCH, {"query": query(1), "tenant": "../x"}, 422, "tenant: "),
    ("POST", SEARCH, {"query": query(1), "adapts": True}, 422, "adapts: "),
    ("POST", SEARCH, {"query": query(1), "exclude": [[1], [2]]}, 422, "exclusions for 2 of 1"),
    ("POST", f"{TENANTS}/x/mode", {"mode": "asleep"}, 422, "mode: "),
    ("POST", f"{TENANTS}/x/snapshots", {"name": "../../x"}, 422, "name: "),
    ("POST", f"{HTTP}/tangram/corrupt", {"query": query(1)}, 422, "corruption: "),
]


@pytest.mark.parametrize("id", ["%C2%B2", "--5", "9" * 5000, "-", "1e3"])
def test_an_id_that_no_candidate_has_is_404(server, id):
    with server.client() as client:
        answer = client.get(f"{HTTP}/tangram/candidates/{id}")
        assert client.get(f"{HTTP}/tangram/candidates/5").json()["id"] == 5
    assert answer.status_code == 404 and "no candidate has the id" in answer.json()["detail"]


@pytest.mark.parametrize("headers", [{"Host": "[::1"}, {"Origin": "http://["}])
def test_a_header_that_is_no_address_is_400(server, headers):
    with server.client() as client:
        answer = client.get(HTTP, headers=headers)
    assert answer.status_code == 400 and "is no address" in answer.json()["detail"]


@pytest.mark.parametrize("charset", ["undefined", "nonsense", "base64"])
def test_a_form_is_refused_whatever_its_encoding(server, charset):
    kind = f"multipart/form-data; boundary=x; charset={charset}"
    content = b'--x\r\nContent-Disposition: form-data; name="request"\r\n\r\n{}\r\n--x--\r\n'
    with server.client() as client:
        answer = client.post(SEARCH, content=content, headers={"Content-Type": kind})
    assert answer.status_code == 422 and "expected application/json" in answer.json()["detail"]


def test_health_is_told_under_any_name_where_hosts_are_set():
    async def app(scope, receive, send):
        passed.append(scope["path"])

    passed, settings = [], ServeSettings(hosts=["shop.example"])
    check = OriginCheck(app, settings)
    for path in ("/healthz", "/readyz", "/v1/collections"):
        scope = {"type": "http", "path": path, "headers": [(b"host", b"127.0.0.1:8080")]}
        with nullcontext() if path != "/v1/collections" else pytest.raises(Forbidden):
            asyncio.run(check(scope, None, None))
    assert passed == ["/healthz", "/readyz"]


def test_openapi_says_which_routes_take_a_token(server):
    with server.client() as client:
        schema = client.get("/openapi.json").json()
    assert schema["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    for path, verbs in schema["paths"].items():
        for route in verbs.values():
            assert ("security" in route) == (path not in ("/healthz", "/readyz")), path


@pytest.mark.parametrize(("verb", "path", "body", "status", "told"), CASES)
def test_refusals(server, verb, path, body, status, told):
    with server.client() as client:
        answer = client.request(verb, path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status and told in problem["detail"]
    assert problem["request_id"] == answer.headers["x-request-id"]


def test_an_unknown_corruption_says_which_there_are(server):
    body = {"query": query(1), "corruption": "fgo", "severity": 1}
    with server.client() as client:
        answer = client.post(f"{HTTP}/tangram/corrupt", json=body)
    assert answer.status_code == 422 and 'did you mean "fog"' in answer.json()["detail"]


def test_another_content_type_is_refused(server):
    with server.client() as client:
        answer = client.post(SEARCH, content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 422 and "application/json" in answer.json()["detail"]


def test_pages_of_other_sites_and_other_host_names_may_not_call(server):
    with server.client() as client:
        lured = client.get("/v1/collections", headers={"Origin": "https://elsewhere.example"})
        renamed = client.get("/v1/collections", headers={"Host": "elsewhere.example"})
        own = client.get("/v1/collections", headers={"Origin": server.url})
    assert lured.status_code == renamed.status_code == 403 and own.status_code == 200
    assert "access-control-allow-origin" not in own.headers


def test_a_plain_request_id_is_kept_and_a_strange_one_replaced(server):
    with server.client() as client:
        kept = client.get("/healthz", headers={"X-Request-Id": "mine-1"})
        replaced = client.get("/healthz", headers={"X-Request-Id": "no {json}"})
    assert kept.headers["x-request-id"] == "mine-1"
    assert len(replaced.headers["x-request-id"]) == 32


def test_every_request_is_a_line_of_json_with_its_ids(server):
    with server.client() as client:
        body = {"tenant": "logged", "query": query(1)}
        client.post(SEARCH, json=body, headers={"X-Request-Id": "in-the-log"})
    deadline, found = time.monotonic() + 10, []
    while not found and time.monotonic() < deadline:  # it is written after the answer
        found = [text for text in server.log.read_text().splitlines() if "in-the-log" in text]
    line = json.loads(found[0])
    assert line["tenant"] == "logged" and line["status"] == 200 and line["ms"] > 0
