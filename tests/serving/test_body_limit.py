"""Bodies: as many bytes, values and seconds as may be, and not one more."""

import asyncio

import pytest

from queryshift.serving.errors import TooLarge, TooSlow
from queryshift.serving.http.limits import BodyLimit
from queryshift.serving.settings import LimitSettings

SEARCH, TENANT = "/v1/collections/shop/search", "/v1/collections/shop/tenants/one/feedback"


def taken(parts, path=SEARCH, told=None, wait=0.0, **limits) -> bytes:
    """The body that the application is given of these parts."""
    left, read = list(parts), []

    async def receive():
        await asyncio.sleep(wait)
        body = left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(left)}

    async def app(scope, receive, send):
        more = True
        while more:
            message = await receive()
            read.append(message["body"])
            more = message["more_body"]

    headers = [] if told is None else [(b"content-length", str(told).encode())]
    scope = {"type": "http", "path": path, "headers": headers}
    asyncio.run(BodyLimit(app, LimitSettings(**limits))(scope, receive, None))
    return b"".join(read)


def test_a_body_has_as_many_bytes_as_the_limit_says():
    assert len(taken([b"x" * 1000, b"x" * 24], body_bytes=1024)) == 1024
    with pytest.raises(TooLarge, match="more than 1,024 bytes"):
        taken([b"x" * 1000, b"x" * 25], body_bytes=1024)
    assert len(taken([b"x"], told=1024, body_bytes=1024)) == 1
    with pytest.raises(TooLarge):
        taken([b"x"], told=1025, body_bytes=1024)


def test_what_is_asked_about_a_tenant_has_at_most_a_mebibyte():
    assert len(taken([b"x" * 1_048_576], TENANT)) == 1_048_576
    with pytest.raises(TooLarge, match="more than 1,048,576 bytes"):
        taken([b"x" * 1_048_577], TENANT)
    assert len(taken([b"x" * 1_048_577], SEARCH)) == 1_048_577


@pytest.mark.parametrize(
    ("mark", "most"), [(b":", 131_072), (b"{", 131_072), (b"[", 131_072), (b",", 1_048_576)]
)
def test_a_body_has_so_many_values_at_most_however_it_is_cut(mark, most):
    assert taken([mark * most]) == mark * most
    with pytest.raises(TooLarge, match="too many values"):
        taken([mark * (most - 1), b" " + mark * 2])


def test_a_body_has_its_time_and_more_for_what_has_come():
    with pytest.raises(TooSlow, match=r"within 0\.3 s"):
        taken([b"x", b"x"], wait=0.2, body_seconds=0.3)
    large = [b"x" * 10_000, b"x"]  # a second for each 10,000 bytes
    assert len(taken(large, wait=0.2, body_seconds=0.3)) == 10_001


@pytest.mark.parametrize("more", [{"more_body": False}, {}])
def test_a_client_may_wait_for_its_answer_as_long_as_it_takes(more):
    messages, seen = [{"type": "http.request", "body": b"{}", **more}], []

    async def receive():
        if messages:
            return messages.pop()
        await asyncio.sleep(0.2)
        return {"type": "http.disconnect"}

    async def app(scope, receive, send):
        seen.extend([(await receive())["type"], (await receive())["type"]])

    scope = {"type": "http", "path": SEARCH, "headers": []}
    asyncio.run(BodyLimit(app, LimitSettings(body_seconds=0.05))(scope, receive, None))
    assert seen == ["http.request", "http.disconnect"]
