"""A tenant's files: bounded, apart from one another, and forgiving of lines cut short."""

import doctest

import pytest

from queryshift import Error
from queryshift.serving import demand, rates, turns
from queryshift.serving.record import Record
from queryshift.serving.tenant_files import TenantFiles
from queryshift.serving.turns import Turns


def rows(first: int, last: int) -> list[dict[str, int]]:
    return [{"batch": number} for number in range(first, last + 1)]


def test_the_history_is_bounded_and_read_from_where_one_is(tmp_path):
    files = TenantFiles(tmp_path, "busy")
    for start in range(1, 101, 10):
        files.append_history(rows(start, start + 9), most=30)
    assert len(files.history.read_text().splitlines()) <= 60
    assert [row["batch"] for row in files.read_history(95, 1000)] == [96, 97, 98, 99, 100]
    assert [row["batch"] for row in files.read_history(0, 1000)][-1] == 100
    assert len(files.read_history(0, 5)) == 5


def test_a_line_cut_short_by_a_kill_costs_only_itself(tmp_path):
    files = TenantFiles(tmp_path, "killed")
    files.append_history(rows(1, 3), most=30)
    with files.history.open("a") as file:
        file.write('{"batch": 4, "ti')
    files.append_history(rows(5, 5), most=30)
    assert [row["batch"] for row in files.read_history(0, 10)] == [1, 2, 3, 5]


def test_no_name_of_a_request_becomes_a_path(tmp_path):
    for name in ("../../etc", "a/b", "x" * 64):
        files = TenantFiles(tmp_path / "tenants", name)
        for path in (files.folder, *files.snapshot_files(name)):
            assert path.resolve().is_relative_to(tmp_path / "tenants")
            assert name not in str(path.relative_to(tmp_path))


def test_a_record_is_read_as_it_was_written_clicks_too():
    record = Record("shop", "shadow", queries=7, created=1.0)
    record.clicks.add_click("b", ["a", "b"], ["b", "a"])
    record.add_event("guard", "collapse", 0.0)
    again = Record.read(record.written())
    assert again.clicks.summary() == record.clicks.summary()
    assert again.queries == 7 and again.mode == "shadow" and again.events == record.events
    with pytest.raises(Error, match="damaged"):
        Record.read('{"tenant": "x"}')


def test_turns_are_one_of_each_and_bounded():
    queue = Turns[int](most=5, most_of_one=3)
    queue.put("loud", [1, 2, 3])
    queue.put("quiet", [4])
    with pytest.raises(Error, match="3 queries are waiting"):
        queue.put("loud", [5])
    with pytest.raises(Error, match="4 queries are waiting, and at most 5"):
        queue.put("third", [6, 7])
    queue.forget("quiet")
    assert [queue.take() for _ in range(4)] == [("loud", 1), ("loud", 2), ("loud", 3), None]
    assert queue.waiting == 0


def test_a_tenant_that_has_had_enough_is_passed_over():
    queue = Turns[int](most=5, most_of_one=3)
    queue.put("loud", [1, 2, 3])
    queue.put("quiet", [4])
    assert [queue.take(["loud"]) for _ in range(2)] == [("quiet", 4), None]
    assert queue.waiting == 3 and queue.take() == ("loud", 1)


@pytest.mark.parametrize("module", [demand, rates, turns])
def test_the_examples_run(module):
    assert doctest.testmod(module).failed == 0 < doctest.testmod(module).attempted
