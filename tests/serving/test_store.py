"""The store, the same in SQLite and PostgreSQL: versions, counts, bounds, deletion."""

import json
import threading
import time
from dataclasses import replace

import pytest
import sqlalchemy as sa
import torch
from sqlalchemy import text

from queryshift import REST, Session
from queryshift.errors import Error
from queryshift.serving.errors import Damaged, StoreTrouble
from queryshift.serving.http.idempotency import Key, find_answer, keep_answers
from queryshift.serving.settings import ServeSettings
from queryshift.serving.store.database import FILE, Database
from queryshift.serving.store.retention import KEY_SECONDS, expire
from queryshift.serving.store.schema import migrate, open_store
from queryshift.serving.store.snapshot_rows import SnapshotRows
from queryshift.serving.store.stored_tenant import Change, Gone, Stale, stored_state
from queryshift.serving.store.tenant_rows import TenantRows
from toy import ToyEncoder, toy_gallery

TABLES = ("tenants", "states", "snapshots", "history", "events", "clicks", "idempotency_keys")
KEY = ("key", b"body")  # and a digest of the body
LOG_HEAD, FRAME = (
    32,
    24 + 4096,
)  # bytes of SQLite's log of writes: its own head, a page with its head
NO_COUNTS = dict.fromkeys(("queries", "batches", "updates", "drops", "resets"), 0)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    address = None if request.param == "sqlite" else request.getfixturevalue("address")
    opened = open_store(ServeSettings(data=tmp_path, store=address))
    yield opened
    opened.close()


@pytest.fixture
def rows(database):
    return TenantRows(database, "shop")


@pytest.fixture(scope="module")
def taken():
    """A session's state, to be stored."""
    encoder = ToyEncoder()
    return Session(encoder, toy_gallery(encoder), REST()).snapshot(history=False)


def change(tenant, token="one", **more) -> Change:
    counts = {**NO_COUNTS, **more.pop("counts", {})}
    return Change(tenant.id, tenant.version, token, counts, 0.0, **more)


def learnt(tenant, taken, batch: int, token: str) -> Change:
    counts = {"batches": 1, "updates": 1, "queries": 8}
    return change(tenant, token, counts=counts, state=taken, rows=[{"batch": batch}], keep_rows=100)


def counted(database, table: str) -> int:
    with database.reading() as connection:
        return connection.scalar(text(f"SELECT count(*) FROM {table}"))


def test_every_row_but_a_kept_answer_belongs_to_a_tenant(database):
    inspected = sa.inspect(database.engine)
    for table in set(TABLES) - {"tenants", "idempotency_keys"}:
        whose = {one["name"]: one for one in inspected.get_columns(table)}["tenant_id"]
        assert whose["nullable"] is False, table


def test_what_was_learnt_its_counts_and_its_version_are_written_together(rows, taken):
    made = rows.make("one", "live", 10)
    assert rows.commit(learnt(made, taken, 1, "a")) == made.version + 1
    found = rows.find("one")
    assert (found.version, found.record.batches, found.record.queries) == (2, 1, 8)
    assert (found.state.encoder, found.state.gallery) == (
        taken.encoder.fingerprint(),
        taken.gallery.version,
    )
    again = Session.load(found.state.content, taken.encoder, taken.gallery)
    assert torch.equal(again.state.adapted.values, taken.state.adapted.values)
    assert found.last_rows == [{"batch": 1}]


def test_an_update_on_a_version_that_was_replaced_is_refused_whole(rows, taken):
    made = rows.make("one", "live", 10)
    rows.commit(learnt(made, taken, 1, "a"))
    late = learnt(made, taken, 1, "b")
    with pytest.raises(Stale, match="version 1 was changed, 2 is stored"):
        rows.commit(late)
    assert rows.find("one").record.queries == 8
    rows.commit(late.counted_only())  # what was counted is added all the same
    found = rows.find("one").record
    assert (found.queries, found.batches, found.updates) == (16, 1, 1)


def test_a_change_that_is_sent_again_is_made_once(rows, taken):
    made = rows.make("one", "live", 10)
    sent = learnt(made, taken, 1, "a")
    assert rows.commit(sent) == rows.commit(sent) == 2
    asked = change(made, "b", counts={"queries": 3})
    rows.commit(asked)
    rows.commit(asked)
    found = rows.find("one").record
    assert (found.queries, found.batches) == (11, 1)


def test_of_many_who_race_each_version_is_written_by_one(rows, taken):
    rows.make("one", "live", 10)
    won, lost = [], []

    def race(name: str) -> None:
        for number in range(15):
            seen = rows.find("one")
            batch = seen.record.batches + 1
            try:
                rows.commit(learnt(seen, taken, batch, f"{name}-{number}"))
                won.append(batch)
            except Stale:
                lost.append(batch)

    threads = [threading.Thread(target=race, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = rows.find("one")
    assert len(won) + len(lost) == 45 and sorted(won) == list(range(1, len(won) + 1))
    assert found.record.batches == found.record.updates == len(won) == found.version - 1
    assert [row["batch"] for row in rows.history(found.id, 0, 100)] == sorted(won)


def test_the_history_is_bounded_and_read_from_where_one_is(rows):
    made = rows.make("one", "live", 10)
    for start in range(1, 101, 10):
        added = [{"batch": number} for number in range(start, start + 10)]
        seen = rows.find("one")
        rows.commit(change(seen, f"from {start}", rows=added, keep_rows=30))
    assert [row["batch"] for row in rows.history(made.id, 0, 1000)] == list(range(71, 101))
    assert [row["batch"] for row in rows.history(made.id, 95, 3)] == [96, 97, 98]


def test_rows_of_old_versions_have_the_shift_score_under_its_new_name_too(rows):
    made = rows.make("one", "live", 10)
    rows.commit(change(made, rows=[{"batch": 1, "strangeness": 2.5}], keep_rows=9))
    assert [row["shift_score"] for row in rows.history(made.id, 0, 9)] == [2.5]
    assert rows.find("one").last_rows[0]["shift_score"] == 2.5


def test_events_and_clicks_are_added_and_events_bounded(rows):
    made = rows.make("one", "live", 10)
    for number in range(40):
        events = [{"batch": number, "event": "guard"}]
        rows.commit(change(made, str(number), events=events, clicks={(1, 2): 2}))
    found = rows.find("one").record
    assert [event["batch"] for event in found.events] == list(range(8, 40))
    assert found.clicks.counts() == {(1, 2): 80}


def test_tenants_are_listed_by_name_and_bounded(rows):
    for name in ("b", "C", "a", "B"):
        assert rows.make(name, "shadow", 4) is not None
    assert rows.make("d", "shadow", 4) is None and rows.make("a", "live", 4).record.mode == "shadow"
    assert [one["tenant"] for one in rows.listed("", 10, None)] == ["B", "C", "a", "b"]
    assert [one["tenant"] for one in rows.listed("B", 2, None)] == ["C", "a"]
    assert [one["tenant"] for one in rows.listed("", 10, ["a", "none"])] == ["a"]
    assert rows.listed("", 10, []) == [] and rows.count() == 4


def test_a_deleted_tenant_leaves_nothing_and_who_knew_it_writes_nothing(database, rows, taken):
    made = rows.make("one", "live", 10)
    other = rows.make("other", "live", 10)
    events = [{"batch": 1}]
    rows.commit(replace(learnt(made, taken, 1, "a"), events=events, clicks={(1, 1): 1}))
    rows.commit(learnt(other, taken, 1, "b"))
    snapshots = SnapshotRows(database)
    about = {"name": "kept", "time": "now", "batches": 1}
    assert snapshots.keep(made.id, about, stored_state(taken), 2)
    keep_answers(database, [(Key("me", "/search", "shop", "one", "key", b"body"), b"{}")])
    assert all(counted(database, table) for table in TABLES)
    assert rows.delete("one") and not rows.delete("one")
    assert {table: counted(database, table) for table in TABLES} == {
        **dict.fromkeys(TABLES, 0),
        **dict.fromkeys(("tenants", "states", "history"), 1),
    }
    again = rows.make("one", "live", 10)
    assert again.id not in (made.id, other.id)
    for late in (learnt(made, taken, 2, "c"), change(made, "d", counts={"queries": 1})):
        with pytest.raises(Gone):
            rows.commit(late)
    with pytest.raises(Gone):
        snapshots.keep(made.id, about, stored_state(taken), 2)


def test_nothing_of_a_deleted_tenant_is_left_in_the_file(tmp_path):
    opened = open_store(ServeSettings(data=tmp_path))
    rows, secret = TenantRows(opened, "shop"), "something-nobody-may-find"
    made = rows.make("one", "live", 10)
    rows.commit(change(made, events=[{"detail": secret}]))
    files = list(tmp_path.glob("queryshift.db*"))
    assert any(secret.encode() in path.read_bytes() for path in files)
    rows.delete("one")
    assert not any(secret.encode() in path.read_bytes() for path in files)
    opened.close()


def test_snapshots_are_bounded_replaced_and_deleted(database, rows, taken):
    snapshots, made, state = SnapshotRows(database), rows.make("a", "live", 9), stored_state(taken)
    for name, kept in (("x", True), ("y", True), ("z", False), ("x", True)):
        about = {"name": name, "time": name, "batches": 3}
        assert snapshots.keep(made.id, about, state, 2) is kept
    assert [one["name"] for one in snapshots.listed(made.id)] == ["x", "y"]
    assert snapshots.find(made.id, "x") == state and snapshots.find(made.id, "none") is None
    assert snapshots.delete(made.id, "x") and not snapshots.delete(made.id, "x")


def test_answers_are_found_by_their_key_for_ten_minutes(database, monkeypatch):
    key = Key("me", "/path", "shop", "one", "key", b"digest")
    assert find_answer(database, key) is None
    keep_answers(database, [(key, b"first"), (replace(key, name="other"), b"else")])
    keep_answers(database, [(key, b"second")])
    assert find_answer(database, replace(key, body=b"other")) == (b"digest", b"first")
    assert find_answer(database, replace(key, caller="you")) is None
    later = time.time() + KEY_SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert find_answer(database, key) is None
    expire(database, None)
    assert counted(database, "idempotency_keys") == 0


def test_what_is_older_than_the_operator_says_is_deleted(database, rows, taken, monkeypatch):
    old, asked = rows.make("old", "live", 10), rows.make("asked", "live", 10)
    for one in (old, asked):
        events = [{"batch": 1}]
        rows.commit(
            replace(learnt(one, taken, 1, one.record.tenant), events=events, clicks={(1, 1): 1})
        )
    later = time.time() + 31 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    assert expire(database, None) == 0
    rows.commit(replace(change(asked, "now"), last_seen=later))
    assert expire(database, 30) == 1
    left = {table: counted(database, table) for table in TABLES[:-1]}
    assert left == {**dict.fromkeys(TABLES[:-1], 0), "tenants": 1, "states": 1}


def test_a_damaged_row_costs_its_tenant_an_error_and_nobody_else(database, rows):
    rows.make("hurt", "live", 10)
    made = rows.make("well", "live", 10)
    rows.commit(change(made, rows=[{"batch": 1}, {"batch": 2}], keep_rows=9))
    with database.writing() as connection:
        connection.execute(text("UPDATE tenants SET mode = 'l\u00ffve' WHERE name = 'hurt'"))
        connection.execute(text("UPDATE history SET content = '{\"ba' WHERE batch = 1"))
        connection.execute(text("UPDATE tenants SET last_seen = 1e300 WHERE name = 'hurt'"))
    with pytest.raises(Damaged, match=r'tenant "hurt" is damaged .* delete the tenant'):
        rows.find("hurt")
    assert rows.history(made.id, 0, 10) == [{"batch": 2}]
    assert len(rows.listed("", 10, None)) == 2 and rows.find("well").record.mode == "live"
    assert rows.delete("hurt")


def test_counts_that_are_none_are_told_as_damaged(tmp_path):
    opened = open_store(ServeSettings(data=tmp_path))
    rows = TenantRows(opened, "shop")
    rows.make("hurt", "live", 10)
    with opened.writing() as connection:
        connection.execute(text("UPDATE tenants SET queries = 'x', created = 'y'"))
    with pytest.raises(Damaged):
        rows.find("hurt")
    opened.close()


def test_a_flipped_bit_in_the_file_costs_at_most_its_tenant(tmp_path):
    opened = open_store(ServeSettings(data=tmp_path))
    rows, marks = TenantRows(opened, "shop"), ("the-first-one", "the-second-one")
    for name in marks:
        made = rows.make(name, "frozen", 10)
        rows.commit(change(made, events=[{"detail": name}]))
    opened.close()
    file = tmp_path / "queryshift.db"
    content = bytearray(file.read_bytes())
    place = content.index(b"the-first-onefrozen") + len("the-first-one") + 2
    content[place] ^= 0x80
    file.write_bytes(content)
    opened = open_store(ServeSettings(data=tmp_path))
    rows = TenantRows(opened, "shop")
    with pytest.raises(Damaged):
        rows.find("the-first-one")
    assert rows.find("the-second-one").record.mode == "frozen"
    assert [one["tenant"] for one in rows.listed("", 10, None)] == list(marks)
    opened.close()


def test_an_older_server_refuses_a_newer_schema_and_changes_nothing(database, rows, taken):
    rows.make("one", "frozen", 10)
    with database.writing() as connection:  # what a later version may do
        connection.execute(text("ALTER TABLE tenants ADD COLUMN colour TEXT NOT NULL DEFAULT ''"))
        for table in ("history", "events", "clicks", "states", "idempotency_keys"):
            connection.execute(text(f"ALTER TABLE {table} ADD COLUMN later TEXT DEFAULT ''"))
        connection.execute(text("CREATE TABLE later (id INTEGER)"))
        connection.execute(text("UPDATE alembic_version SET version_num = 'v999'"))
    with pytest.raises(Error, match=r'schema "v999" of a newer queryshift.*restore a backup'):
        migrate(database)
    made = rows.find("one")  # one that runs already goes on beside the newer one
    more = {"mode": "live", "events": [{"batch": 1}], "clicks": {(1, 1): 1}}
    rows.commit(replace(learnt(made, taken, 1, "a"), **more))
    assert rows.find("one").record.mode == "live" and rows.make("two", "live", 10)


def test_replicas_that_start_at_once_make_one_schema(address, tmp_path):
    failed = []

    def start() -> None:
        try:
            open_store(ServeSettings(data=tmp_path, store=address)).close()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_store_that_is_away_is_told_in_a_sentence(tmp_path):
    away = Database("postgresql://nobody@127.0.0.1:1/none", tmp_path)
    with pytest.raises(StoreTrouble, match=r"does not answer .*is it there"):
        TenantRows(away, "shop").find("one")
    with pytest.raises(Error, match="expected postgresql://"):
        Database("nonsense", tmp_path)


def test_sqlite_is_as_safe_as_it_can_be(tmp_path):
    opened = open_store(ServeSettings(data=tmp_path))
    with opened.reading() as connection:
        told = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert told == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    opened.close()


def test_only_keys_of_searches_are_written_without_a_sync(tmp_path):
    opened, levels = open_store(ServeSettings(data=tmp_path)), []

    @sa.event.listens_for(opened.engine, "commit")
    def note(connection):
        levels.append(connection.exec_driver_sql("PRAGMA synchronous").scalar())

    for paths in (["/v1/search"], ["/v1/undo"], ["/v1/search", "/v1/undo"]):
        keys = [Key("me", path, "shop", "one", f"{path}{paths}", b"body") for path in paths]
        keep_answers(opened, [(key, b"{}") for key in keys])
    TenantRows(opened, "shop").make("one", "live", 10)
    assert levels == [1, 2, 2, 2]  # NORMAL, FULL
    opened.close()


def test_after_a_power_failure_what_a_search_taught_is_not_there_without_its_key(tmp_path, taken):
    opened, key = (
        open_store(ServeSettings(data=tmp_path)),
        Key("me", "/search", "shop", "one", *KEY),
    )
    rows = TenantRows(opened, "shop")
    made = rows.make("one", "live", 10)
    with opened.writing(forgets=True):
        pass  # an empty log
    keep_answers(opened, [(key, b"{}")])
    rows.commit(learnt(made, taken, 1, "one"))
    there = set()
    log = (tmp_path / f"{FILE}-wal").read_bytes()
    for number, length in enumerate(range(LOG_HEAD, len(log) + 1, FRAME)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / FILE).write_bytes((tmp_path / FILE).read_bytes())
        (folder / f"{FILE}-wal").write_bytes(log[:length])  # as much as reached the disk
        after = Database(None, folder)
        found = TenantRows(after, "shop").find("one")
        there.add((find_answer(after, key) is not None, found.record.batches))
        after.close()
    assert there == {(False, 0), (True, 0), (True, 1)}
    opened.close()


def test_events_are_json_that_others_can_read(rows, database):
    made = rows.make("one", "live", 10)
    rows.commit(change(made, events=[{"event": "guard", "detail": "ü"}]))
    with database.reading() as connection:
        assert json.loads(connection.scalar(text("SELECT content FROM events")))["detail"] == "ü"
