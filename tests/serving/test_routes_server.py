"""Whether a server is ready, who may see what it counts, and the files of the page."""

from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from queryshift.serving.http.access import digest
from queryshift.serving.http.limits import Connections
from queryshift.serving.metrics import Metrics
from queryshift.serving.serve import make_app
from queryshift.serving.settings import ServeSettings, TokenSettings

TOKENS = [
    TokenSettings(name="all", sha256=digest("all"), scopes=["read"]),
    TokenSettings(name="ann", sha256=digest("ann"), scopes=["read"], tenants=["ann"]),
    TokenSettings(name="shop", sha256=digest("shop"), scopes=["read"], collections=["shop"]),
    TokenSettings(name="admin", sha256=digest("admin"), scopes=["admin"]),
]


def client(ready: bool = True, trouble: str | None = None, **settings) -> TestClient:
    """A client of a server whose service is not started."""
    writer = SimpleNamespace(trouble=trouble)
    service = SimpleNamespace(
        healthy=lambda: ready, writer=writer, names=["shop"], store=None, collection=None
    )
    app = make_app(ServeSettings(**settings), service, Metrics(), Connections(8))
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("ready", "trouble", "status", "told", "disk"),
    [
        (True, None, 200, "ready", "ok"),
        (False, None, 503, "not ready", "ok"),
        (True, "no room.", 200, "ready", "cannot be written"),
    ],
)
def test_readiness_has_a_status_and_a_full_disk_is_told(ready, trouble, status, told, disk):
    answer = client(ready, trouble).get("/readyz")
    assert answer.status_code == status
    about = answer.json()
    assert about["status"] == told and disk in about["disk"] and about["collections"] == ["shop"]
    assert client(ready, trouble).get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("token", "open_metrics", "status"),
    [
        (None, False, 401),
        ("ann", False, 403),
        ("shop", False, 403),
        ("admin", False, 403),
        ("all", False, 200),
        (None, True, 200),
    ],
)
def test_who_may_read_everything_sees_the_metrics(token, open_metrics, status):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    given = client(tokens=TOKENS, open_metrics=open_metrics)
    answer = given.get("/metrics", headers=headers)
    assert answer.status_code == status and ("queryshift_" in answer.text) == (status == 200)


def test_a_token_that_lacks_a_scope_is_told_where():
    given = client(tokens=TOKENS)

    def refused(verb: str, path: str, token: str) -> str:
        answer = given.request(verb, path, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 403
        return answer.json()["detail"]

    path = "/v1/collections/other"
    assert refused("GET", path, "shop") == 'the token "shop" lacks the scope read for "other".'
    told = refused("POST", f"{path}/tenants/bob/reset", "ann")
    assert told == 'the token "ann" lacks the scope admin for tenant "bob" of "other".'


def test_the_page_has_its_files_and_no_others():
    given = client(tokens=TOKENS)  # and needs no token
    assert given.get("/").status_code == 200 and "<html" in given.get("/").text
    assert given.get("/page/page.css").status_code == 200
    for name in ("routes_server.py", "..%2Fserve.py", "none.js"):
        assert given.get(f"/page/{name}").status_code == 404
