"""What clients are told of each refusal: its status, its headers, a problem of RFC 9457."""

from http import HTTPStatus

import pytest

from queryshift.errors import BadInput, EngineLost
from queryshift.serving import errors

CLOSED = {"Connection": "close"}
LATER = {"Retry-After": "1"}
STATUSES = [
    (errors.Refused, 400, {}),
    (errors.Unauthorised, 401, {"WWW-Authenticate": "Bearer"}),
    (errors.Forbidden, 403, {}),
    (errors.NotFound, 404, {}),
    (errors.TooSlow, 408, CLOSED),
    (errors.Conflict, 409, {}),
    (errors.TooLarge, 413, {}),
    (errors.Malformed, 422, {}),
    (errors.TooBusy, 429, LATER),
    (errors.HeadersTooLarge, 431, {}),
    (errors.Damaged, 500, {}),
    (errors.StoreTrouble, 503, LATER),
    (errors.Ending, 503, LATER | CLOSED),
    (errors.TooManyConnections, 503, LATER | CLOSED),
    (errors.DiskFull, 507, LATER),
]


def kinds(kind: type) -> set[type]:
    return {kind}.union(*map(kinds, kind.__subclasses__()))


@pytest.mark.parametrize(("kind", "status", "headers"), STATUSES)
def test_each_refusal_has_its_status_and_headers(kind, status, headers):
    refused = kind("what was got: what to do.")
    assert errors.problem(refused) == {
        "type": f"urn:queryshift:{kind.__name__}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": "what was got: what to do.",
    }
    assert refused.headers == headers
    assert errors.problem(refused, "one")["request_id"] == "one"


def test_the_table_has_all_of_them():
    here = {kind for kind in kinds(errors.Refused) if kind.__module__ == errors.__name__}
    assert here == {kind for kind, *_ in STATUSES}


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (BadInput("no image."), 422, "BadInput"),
        (EngineLost("it is away."), 503, "EngineLost"),
        (ValueError("secret"), 500, "InternalError"),
    ],
)
def test_what_the_library_raises_has_a_status_too(error, status, kind):
    told = errors.problem(error)
    assert (told["status"], told["type"]) == (status, f"urn:queryshift:{kind}")
    assert "secret" not in told["detail"]


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.0, "1"), (0.4, "1"), (1.0, "1"), (1.6, "2"), (30.2, "30")]
)
def test_who_is_told_to_come_back_waits_for_whole_seconds_and_at_least_one(seconds, told):
    assert errors.TooBusy("the queue is full.", seconds).headers == {"Retry-After": told}
