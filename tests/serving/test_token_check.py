"""Requests that a token's rate refuses: told when to come back, counted, and not passed on."""

import asyncio

import pytest

from queryshift.serving.errors import TooBusy, Unauthorised
from queryshift.serving.http.access import TokenCheck, digest
from queryshift.serving.metrics import Metrics
from queryshift.serving.settings import ServeSettings, TokenSettings

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
