"""What is deleted by its age: on its day, not before."""

import time
from dataclasses import replace

import pytest

from queryshift.serving.http.idempotency import Key, find_answer, keep_answers
from queryshift.serving.settings import ServeSettings
from queryshift.serving.store.retention import expire
from queryshift.serving.store.schema import open_store
from queryshift.serving.store.snapshot_rows import SnapshotRows
from queryshift.serving.store.stored_tenant import Change, StoredState
from queryshift.serving.store.tenant_rows import TenantRows

DAY = 86_400
COUNTS = dict.fromkeys(("queries", "batches", "updates", "drops", "resets"), 0)


@pytest.fixture
def database(tmp_path):
    opened = open_store(ServeSettings(data=tmp_path))
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("age", "days", "left"),
    [(29, 30, True), (31, 30, False), (0.4, 0.5, True), (0.6, 0.5, False), (1000, None, True)],
)
def test_a_tenant_goes_when_nobody_asked_it_for_so_many_days(
    database, monkeypatch, age, days, left
):
    rows = TenantRows(database, "shop")
    made = rows.make("one", "live", 10)
    event = {"batch": 1, "event": "guard"}
    row = {"batch": 1}
    seen = Change(made.id, made.version, "a", COUNTS, time.time(), {(1, 1): 1}, [event])
    rows.commit(replace(seen, rows=[row], keep_rows=9))
    later = time.time() + age * DAY
    monkeypatch.setattr(time, "time", lambda: later)
    assert expire(database, days) == (not left)
    found = rows.find("one")
    assert (found is not None) == left
    if found is not None:
        assert found.last_rows == [row] and found.record.events == [event]
        assert found.record.clicks.counts() == {(1, 1): 1}


def test_a_tenant_that_is_asked_stays_without_its_old_history(database, monkeypatch):
    rows = TenantRows(database, "shop")
    made = rows.make("one", "live", 10)
    seen = Change(made.id, made.version, "a", COUNTS, time.time(), {(1, 1): 1}, [{"batch": 1}])
    rows.commit(replace(seen, rows=[{"batch": 1}], keep_rows=9))
    later = time.time() + 31 * DAY
    monkeypatch.setattr(time, "time", lambda: later)
    rows.commit(Change(made.id, rows.find("one").version, "b", COUNTS, later))
    assert expire(database, 30) == 0
    found = rows.find("one")
    assert found.last_rows == [] and found.record.events == []
    assert found.record.clicks.counts() == {}


@pytest.mark.parametrize(("age", "left"), [(590, True), (610, False)])
@pytest.mark.parametrize("days", [None, 1])
def test_an_answer_under_a_key_is_kept_for_ten_minutes(database, monkeypatch, days, age, left):
    key = Key("me", "/path", "shop", "one", "key", b"digest")
    keep_answers(database, [(key, b"{}")])
    begun = time.time()
    monkeypatch.setattr(time, "time", lambda: begun + age)
    expire(database, days)
    monkeypatch.setattr(time, "time", lambda: begun)
    assert (find_answer(database, key) is not None) == left


@pytest.mark.parametrize("what", ["tenants", "keys", "snapshots"])
def test_nothing_of_what_was_deleted_is_left_in_the_files(what, tmp_path, monkeypatch):
    opened, secret = open_store(ServeSettings(data=tmp_path)), "something-nobody-may-find"
    snapshots, made = SnapshotRows(opened), TenantRows(opened, "shop").make("one", "live", 10)
    if what == "tenants":
        events = [{"detail": secret}]
        TenantRows(opened, "shop").commit(Change(made.id, 1, "a", COUNTS, 0.0, {}, events))
    elif what == "keys":
        keep_answers(opened, [(Key("me", "/path", "shop", "one", secret, b""), b"{}")])
    else:
        about, state = {"name": secret, "time": "", "batches": 0}, StoredState(b"", "", "")
        snapshots.keep(made.id, about, state, 9)
    files = list(tmp_path.glob("queryshift.db*"))
    assert any(secret.encode() in path.read_bytes() for path in files)
    later = time.time() + 2 * DAY
    monkeypatch.setattr(time, "time", lambda: later)
    if what == "snapshots":
        snapshots.delete(made.id, secret)
    else:
        expire(opened, 1 if what == "tenants" else None)
    assert not any(secret.encode() in path.read_bytes() for path in files)
    opened.close()
