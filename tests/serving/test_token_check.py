"""Who may call: what tokens allow, how often they may ask, which origins and names are taken."""

import asyncio
from types import SimpleNamespace

import pytest

from queryshift.serving.errors import Forbidden, TooBusy, Unauthorised
from queryshift.serving.http import access
from queryshift.serving.http.access import Caller, OriginCheck, Rate, TokenCheck, digest
from queryshift.serving.metrics import Metrics
from queryshift.serving.settings import ServeSettings, TokenSettings

READ, ADAPT = {"scopes": ["read"]}, {"scopes": ["adapt"]}
SHOP, ANN, BOB = {"collections": ["shop"]}, {"tenants": ["ann"]}, {"tenants": ["bob"]}
ONE_EACH = [READ | ANN, ADAPT | BOB]  # two entries of one token
HASTY = TokenSettings(name="hasty", sha256=digest("word"), scopes=["read"], rate=0.001, burst=2)


def test_a_request_over_the_rate_is_counted_and_goes_no_further():
    passed, metrics = [], Metrics()

    async def app(scope, receive, send):
        passed.append(scope["state"]["caller"].name)

    check = TokenCheck(app, ServeSettings(tokens=[HASTY]), metrics)

    def ask(token):
        headers = [(b"authorization", f"Bearer {token}".encode())]
        scope = {"type": "http", "path": "/v1/collections", "headers": headers, "state": {}}
        asyncio.run(check(scope, None, None))

    def refused():
        return metrics.registry.get_sample_value("queryshift_refused_total", {"reason": "rate"})

    ask("word")
    ask("word")
    assert passed == ["hasty"] * 2 and not refused()
    for count in (1, 2):
        with pytest.raises(TooBusy):
            ask("word")
        assert refused() == count
    with pytest.raises(Unauthorised):
        ask("guess")
    assert passed == ["hasty"] * 2 and refused() == 2


def caller(entries) -> Caller:
    """Who has a token with these entries in the file."""
    grants = [TokenSettings(name="one", sha256=digest("word"), **entry) for entry in entries]
    return Caller("one", grants)


@pytest.mark.parametrize(
    ("entries", "asked", "allowed"),
    [
        ([], ("read", "shop", "ann"), False),
        ([READ], ("read", "shop", "ann"), True),
        ([READ], ("read", "shop", "*"), True),
        ([READ], ("adapt", "shop", "ann"), False),
        ([READ | SHOP], ("read", "shop", "ann"), True),
        ([READ | SHOP], ("read", "other", "ann"), False),
        ([READ | SHOP], ("read", "*", "*"), False),
        ([READ | ANN], ("read", "shop", "ann"), True),
        ([READ | ANN], ("read", "shop", "bob"), False),
        ([READ | ANN], ("read", "shop", "*"), False),
        ([READ | ANN], ("read", "shop", None), True),
        ([READ | ANN], ("admin", "shop", None), False),
        (ONE_EACH, ("read", "shop", "ann"), True),
        (ONE_EACH, ("adapt", "shop", "bob"), True),
        (ONE_EACH, ("adapt", "shop", "ann"), False),
        (ONE_EACH, ("read", "shop", "bob"), False),
    ],
)
def test_a_token_may_do_what_one_of_its_entries_allows(entries, asked, allowed):
    assert caller(entries).may(*asked) is allowed
    assert Caller("", None).may(*asked) is True  # where there are no tokens


@pytest.mark.parametrize(
    ("entries", "collection", "readable"),
    [
        ([READ], "shop", None),
        ([READ | ANN], "shop", ["ann"]),
        ([READ | ANN, READ | BOB], "shop", ["ann", "bob"]),
        (ONE_EACH, "shop", ["ann"]),
        ([READ | SHOP], "shop", None),
        ([READ | SHOP], "other", []),
    ],
)
def test_a_token_sees_the_tenants_that_it_may_read(entries, collection, readable):
    assert caller(entries).readable(collection) == readable


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic word", "word"])
def test_a_token_is_taken_as_a_bearer_token_alone(header):
    check = TokenCheck(None, ServeSettings(tokens=[HASTY]), Metrics())
    scope = {"type": "http", "path": "/metrics", "headers": [], "state": {}}
    scope["headers"] = [(b"authorization", header.encode())] if header else []
    with pytest.raises(Unauthorised, match="a token is needed"):
        asyncio.run(check(scope, None, None))
    assert "caller" not in scope["state"]


def test_a_bucket_of_requests_fills_at_its_rate_and_no_higher_than_its_burst(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(access, "time", SimpleNamespace(monotonic=lambda: now))

    def taken() -> int:
        """Requests that pass until one is refused."""
        for count in range(100):
            try:
                bucket.take()
            except TooBusy as error:
                waits.append(error.headers["Retry-After"])
                return count
        return 100

    bucket, waits = Rate(0.25, burst=3), []
    assert taken() == 3
    now += 3.9  # a request takes four seconds to come back
    assert taken() == 0
    now += 0.2
    assert taken() == 1
    now += 8
    assert taken() == 2
    now += 1000
    assert taken() == 3
    assert waits == ["4", "1", "4", "4", "4"]


@pytest.mark.parametrize(
    ("headers", "settings", "refused"),
    [
        ({"host": "localhost:8080"}, {}, None),
        ({"host": "[::1]:8080"}, {}, None),
        ({"host": "shop.example"}, {}, "no name of this server"),
        ({}, {}, "no name of this server"),
        ({"host": "shop.example"}, {"tokens": [HASTY]}, None),
        ({"host": "Shop.example"}, {"hosts": ["shop.EXAMPLE"]}, None),
        ({"host": "localhost"}, {"hosts": ["shop.example"]}, "no name of this server"),
        ({"host": "localhost:80", "origin": "http://localhost:80"}, {}, None),
        ({"host": "localhost:80", "origin": "http://localhost:81"}, {}, "pages of"),
        ({"host": "localhost", "origin": "https://a.example"}, {}, "pages of"),
        ({"host": "localhost", "origin": "null"}, {}, "pages of"),
        (
            {"host": "localhost", "origin": "https://a.example"},
            {"origins": ["https://a.example"]},
            None,
        ),
        (
            {"host": "localhost", "origin": "https://b.example"},
            {"origins": ["https://a.example"]},
            "pages of",
        ),
    ],
)
def test_pages_of_this_server_and_of_allowed_origins_may_call(headers, settings, refused):
    async def app(scope, receive, send):
        passed.append(scope["path"])

    passed, check = [], OriginCheck(app, ServeSettings(**settings))
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    asked = check({"type": "http", "path": "/v1/collections", "headers": sent}, None, None)
    if refused is None:
        asyncio.run(asked)
    else:
        with pytest.raises(Forbidden, match=refused):
            asyncio.run(asked)
    assert len(passed) == (refused is None)
