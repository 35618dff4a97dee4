"""Tokens: who may do what, and what a tenant's token shows of others."""

from hashlib import sha256

import pytest
from queries_to_send import SEARCH, TENANTS, query

from running_server import SMALL, Server

TOKENS = {
    "reader": 'scopes = ["read"]',
    "mine": 'scopes = ["read", "adapt", "admin"]\ntenants = ["mine"]',
    "operator": 'scopes = ["read", "adapt", "admin"]',
    "elsewhere": 'scopes = ["read", "adapt", "admin"]\ncollections = ["other"]',
    "hasty": 'scopes = ["read"]\nrate = 0.5\nburst = 3',
}


def entry(name: str, more: str) -> str:
    return f'[[tokens]]\nname = "{name}"\nsha256 = "{sha256(name.encode()).hexdigest()}"\n{more}\n'


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    toml = SMALL + "".join(entry(name, more) for name, more in TOKENS.items())
    with Server(tmp_path_factory.mktemp("guarded"), toml) as running:
        with running.client("operator") as client:
            for tenant in ("mine", "theirs"):
                client.post(SEARCH, json={"query": query(1), "tenant": tenant})
        yield running


def ask(server, token, verb, path, body=None) -> int:
    with server.client(token) as client:
        return client.request(verb, path, json=body).status_code


def body(tenant: str, adapt: bool = True) -> dict:
    return {"query": query(1), "tenant": tenant, "adapt": adapt}


def test_without_a_token_only_health_and_the_page_are_open(guarded):
    for path in ("/healthz", "/readyz", "/openapi.json", "/"):
        assert ask(guarded, None, "GET", path) == 200
    for path in ("/v1/collections", "/metrics", TENANTS):
        assert ask(guarded, None, "GET", path) == 401
        assert ask(guarded, "guessed", "GET", path) == 401
    assert ask(guarded, None, "POST", SEARCH, body("mine")) == 401
    with guarded.client() as client:
        assert client.get(TENANTS).headers["www-authenticate"] == "Bearer"


def test_a_reader_asks_and_looks_but_teaches_nothing(guarded):
    assert ask(guarded, "reader", "POST", SEARCH, body("mine", adapt=False)) == 200
    assert ask(guarded, "reader", "POST", SEARCH, body("mine", adapt=True)) == 403
    assert ask(guarded, "reader", "GET", f"{TENANTS}/mine") == 200
    assert ask(guarded, "reader", "POST", f"{TENANTS}/mine/reset") == 403
    assert ask(guarded, "reader", "GET", "/metrics") == 200


def test_a_tenants_token_reaches_no_other_tenant(guarded):
    assert ask(guarded, "mine", "POST", SEARCH, body("mine")) == 200
    assert ask(guarded, "mine", "POST", SEARCH, body("theirs")) == 403
    for path in ("", "/history", "/latest", "/snapshots"):
        assert ask(guarded, "mine", "GET", f"{TENANTS}/theirs{path}") == 403
    for path in ("/reset", "/undo"):
        assert ask(guarded, "mine", "POST", f"{TENANTS}/theirs{path}") == 403
    assert ask(guarded, "mine", "POST", f"{TENANTS}/mine/snapshots", {"name": "a"}) == 200
    sample = {"queries": [query(1), query(2)]}
    assert ask(guarded, "mine", "PUT", "/v1/collections/tangram/reference", sample) == 403


def test_a_tenants_token_lists_only_its_own(guarded):
    with guarded.client("mine") as client:
        listed = client.get(TENANTS, params={"limit": 1}).json()
    assert [one["tenant"] for one in listed["tenants"]] == ["mine"]
    assert "theirs" not in str(listed)
    with guarded.client("operator") as client:
        names = {one["tenant"] for one in client.get(TENANTS).json()["tenants"]}
    assert {"mine", "theirs"} <= names


def test_a_tenants_token_is_not_told_how_many_others_there_are(guarded):
    assert ask(guarded, "mine", "GET", "/metrics") == 403
    with guarded.client("mine") as client:
        assert client.get("/v1/collections/tangram").json()["tenants"] == 1
        assert client.get("/v1/collections").json()["collections"][0]["tenants"] == 1
    with guarded.client("operator") as client:
        assert client.get("/v1/collections/tangram").json()["tenants"] == 2


def test_a_token_for_another_collection_sees_nothing_here(guarded):
    assert ask(guarded, "elsewhere", "GET", "/v1/collections/tangram") == 403
    with guarded.client("elsewhere") as client:
        assert client.get("/v1/collections").json() == {"collections": []}


def test_an_idempotency_key_of_one_token_gives_another_nothing(guarded):
    headers = {"Idempotency-Key": "shared"}
    with guarded.client("operator") as client:
        first = client.post(SEARCH, json=body("mine"), headers=headers).json()
    with guarded.client("mine") as client:
        second = client.post(SEARCH, json=body("mine"), headers=headers).json()
    assert first["request_id"] != second["request_id"]


def test_a_token_that_asks_too_often_is_told_when_to_come_back(guarded):
    with guarded.client("hasty") as client:
        answers = [client.get("/v1/collections") for _ in range(6)]
    assert [one.status_code for one in answers[:3]] == [200] * 3
    assert answers[-1].status_code == 429 and int(answers[-1].headers["retry-after"]) >= 1


def test_the_log_names_tokens_but_shows_none(guarded):
    ask(guarded, "secret-guess", "GET", TENANTS)
    log = guarded.log.read_text()
    assert '"caller": "operator"' in log and "secret-guess" not in log and "Bearer" not in log
