"""A line of the log: JSON with what it is about, and nothing that is not known."""

import json
import logging
import sys

import pytest

from queryshift.serving.http.request_log import JsonLines


def line(**more) -> dict:
    """What is written of a record that has these fields."""
    record = logging.makeLogRecord(
        {"name": "queryshift.serving", "levelname": "WARNING", "created": 0.0, **more}
    )
    return json.loads(JsonLines().format(record))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, {}),
        ({"tenant": "ann", "status": 0, "ms": 0.5}, {"tenant": "ann", "status": 0, "ms": 0.5}),
        ({"tenant": None, "caller": ""}, {"caller": ""}),
        ({"password": "secret"}, {}),
    ],
)
def test_a_line_has_the_fields_that_are_known(given, told):
    plain = {"level": "warning", "logger": "queryshift.serving", "message": "1 of 2"}
    found = line(msg="%d of %d", args=(1, 2), **given)
    assert found.pop("time").startswith("1970-01-01T00:00:00")
    assert found == plain | told


def test_an_error_is_written_with_where_it_was_raised():
    try:
        raise ValueError("a bug of ours")
    except ValueError:
        found = line(msg="failed", exc_info=sys.exc_info())
    assert "Traceback" in found["error"] and "a bug of ours" in found["error"]
