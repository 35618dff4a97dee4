"""What operators do with stored tenants: import, back up, restore, change the gallery, delete."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
from hashlib import sha256

import pytest
from queries_to_send import SEARCH, TENANTS, learnt, png, query, search

from queryshift import Error
from queryshift.serving.answering.search import SearchRequest
from queryshift.serving.collection import open_collection
from queryshift.serving.errors import StoreTrouble
from queryshift.serving.metrics import Metrics
from queryshift.serving.service import Service
from queryshift.serving.settings import CollectionSettings, ServeSettings, TenantSettings
from queryshift.serving.store import database
from queryshift.serving.store.database import locked_folder
from running_server import SMALL, Server

ALL = 'scopes = ["read", "adapt", "admin"]'
TOKENS = {"operator": ALL, "user": 'scopes = ["read", "adapt"]', "other": f'{ALL}\ntenants = ["x"]'}


def run(work):
    return asyncio.run(asyncio.wait_for(work, 60))


def settings(folder, store=None, **collection) -> ServeSettings:
    given = {"candidates": 64, "gather": 4, "mode": "live", "guard": False, **collection}
    return ServeSettings(
        data=folder, store=store, collections={"tangram": CollectionSettings(**given)}
    )


def with_owner(given: ServeSettings, work):
    """What work gives with the owner of a server's tenants, which then ends in good order."""

    async def started():
        tenants = Service(given, Metrics())
        await tenants.start()
        try:
            return await work(tenants.collection("tangram"))
        finally:
            await tenants.stop()

    return run(started())


async def teach(owner, name="one"):
    queries = [png(number, 90) for number in range(4)]
    await owner.search(SearchRequest(name, name, queries, 3, True, [[]] * 4))
    await owner.learning.drained()
    return await owner.tenant(name)


def old_folder(data):
    """A data folder as servers wrote it before there was a database: two tenants, one damaged."""
    given = settings(data / "unused").collections["tangram"]
    folder = data / "collections" / "tangram"
    folder.mkdir(parents=True)
    session = open_collection("tangram", given, folder).session()
    session.answer([png(number, 90) for number in range(4)])
    for name, record in (("old", "{record}"), ("hurt", "{")):
        tenant = folder / "tenants" / sha256(name.encode()).hexdigest()[:32]
        (tenant / "snapshots").mkdir(parents=True)
        counts = {"queries": 4, "batches": 2, "updates": 1, "drops": 3, "resets": 0}
        told = {"tenant": name, "mode": "frozen", **counts, "created": 1.0, "last_seen": 2.0}
        event = {"batch": 1, "time": "then", "event": "guard", "detail": "collapse"}
        told |= {"events": [event], "clicks": [[1, 2, 5]]}
        (tenant / "tenant.json").write_text(record.replace("{record}", json.dumps(told)))
        session.save(tenant / "state.safetensors", history=False)
        (tenant / "history.jsonl").write_text('{"batch": 1}\n{"batch": 2, "queries": 4}\n{"bat')
        stem = tenant / "snapshots" / "5nap"
        session.save(stem.with_suffix(".safetensors"), history=False)
        about = {"name": "before", "time": "then", "batches": 1}
        stem.with_suffix(".json").write_text(json.dumps(about))


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_folder_of_files_is_imported_once(database, request, tmp_path, caplog):
    store = None if database == "sqlite" else request.getfixturevalue("address")
    old_folder(tmp_path)
    given = settings(tmp_path, store)

    async def look(owner):
        told, rows = await owner.tenant("old"), await owner.history("old", 0, 10)
        return told, rows, await owner.tenants("", 10)

    told, rows, listed = with_owner(given, look)
    assert [one["tenant"] for one in listed] == ["old"]
    assert (told["mode"], told["queries"], told["batches"], told["drops"]) == ("frozen", 4, 2, 3)
    assert told["report"]["updates_in_force"] == 3 and told["clicks"]["clicks"] == 5
    assert [row["batch"] for row in rows] == [1, 2]
    assert [one["name"] for one in told["snapshots"]] == ["before"]
    assert "1 tenants" in caplog.text and "is not taken over" in caplog.text

    async def change(owner):
        await owner.rollback("old", "before")
        return await owner.set_mode("old", "live")

    assert with_owner(given, change)["mode"] == "live"
    assert with_owner(given, look)[0]["mode"] == "live"  # not imported again
    kept = tmp_path / "collections-before-the-database" / "tangram"
    assert len(list(kept.glob("tenants/*/tenant.json"))) == 2
    with pytest.raises(OSError):  # what the old server did first
        (tmp_path / "collections" / "tangram").mkdir(parents=True, exist_ok=True)
    (tmp_path / "collections").unlink()
    kept.parent.rename(tmp_path / "collections")  # a backup that is laid there again
    assert with_owner(given, look)[0]["mode"] == "live"  # what was changed since stays


def test_what_a_failed_save_did_not_write_still_counts_as_changed(tmp_path, monkeypatch):
    rarely = TenantSettings(save_seconds=1000, save_batches=1000)
    given = settings(tmp_path).model_copy(update={"tenants": rarely})

    async def fail_and_save(owner):
        await teach(owner)
        tenants, tenant = owner.cache, owner.cache.loaded["one"]
        before = tenant.changed_at, tenant.learnt_since_save
        with monkeypatch.context() as patch, pytest.raises(StoreTrouble):
            patch.setattr(type(tenants.rows), "commit", full)
            await tenants.save(tenant)
        after = tenant.changed_at, tenant.learnt_since_save
        await tenants.save(tenant)
        return before, after, (tenant.changed_at, tenant.learnt_since_save)

    def full(rows, change):
        raise StoreTrouble("the disk is full.")

    before, after, saved = with_owner(given, fail_and_save)
    assert before == after and before[1] == 1
    assert saved == (None, 0)


def test_an_import_that_was_killed_is_finished_by_the_next_start(tmp_path):
    old_folder(tmp_path)
    given = settings(tmp_path)

    async def freeze(owner):
        return await owner.set_mode("old", "shadow")

    with_owner(given, freeze)
    (tmp_path / "collections").unlink()  # as if it was killed before the folder was renamed
    (tmp_path / "collections-before-the-database").rename(tmp_path / "collections")

    async def look(owner):
        return await owner.tenant("old")

    assert with_owner(given, look)["mode"] == "shadow"  # what was stored since stays
    assert (tmp_path / "collections").is_file()


@pytest.mark.parametrize("changed", [{"candidates": 80}, {"method": "rest"}])
def test_a_state_that_no_longer_fits_is_kept_aside_and_the_source_answers(changed, tmp_path):
    before = with_owner(settings(tmp_path), teach)
    assert before["report"]["updates_in_force"] == 3

    async def look(owner):
        asked = SearchRequest("one", "id", [png(9, 60)], 3, False, [[]], compare=True)
        (answer,) = (await owner.search(asked))["answers"]
        return await owner.tenant("one"), answer

    told, answer = with_owner(settings(tmp_path, **changed), look)
    (event,) = [one for one in told["guard"]["events"] if one["event"] == "kept_aside"]
    assert "kept aside, and the source answers" in event["detail"]
    assert answer["hits"] == answer["source"] and told["report"]["updates_in_force"] == 0
    (aside,) = told["snapshots"]
    assert aside["name"].startswith("aside-") and told["updates"] == 1

    async def back(owner):
        return await owner.rollback("one", aside["name"])

    assert with_owner(settings(tmp_path), back)["report"]["updates_in_force"] == 3


def test_a_backup_of_sqlite_is_a_whole_store(tmp_path):
    given, backup = settings(tmp_path / "data"), tmp_path / "backup.db"

    async def back_up(owner):
        await teach(owner)
        await owner.set_mode("one", "shadow")
        command = ["sqlite3", str(given.data / "queryshift.db"), f".backup {backup}"]
        if shutil.which("sqlite3"):  # what the page says
            subprocess.run(command, check=True)
        else:
            with (
                sqlite3.connect(given.data / "queryshift.db") as here,
                sqlite3.connect(backup) as to,
            ):
                here.backup(to)
        await owner.set_mode("one", "frozen")

    async def look(owner):
        return await owner.tenant("one")

    with_owner(given, back_up)
    assert with_owner(given, look)["mode"] == "frozen"
    for file in given.data.glob("queryshift.db*"):
        file.unlink()
    backup.rename(given.data / "queryshift.db")
    told = with_owner(given, look)
    assert told["mode"] == "shadow" and told["report"]["updates_in_force"] == 3


def test_a_dump_of_postgresql_is_a_whole_store(postgres, address, tmp_path):
    given, dump = settings(tmp_path, address), tmp_path / "backup.dump"

    async def back_up(owner):
        await teach(owner)
        await owner.set_mode("one", "shadow")
        command = ("--format=custom", f"--file={dump}", address)
        await asyncio.to_thread(postgres.run, "pg_dump", *command)
        await owner.delete("one")

    async def look(owner):
        return await owner.tenant("one")

    with_owner(given, back_up)
    postgres.run("pg_restore", "--clean", "--if-exists", f"--dbname={address}", dump)
    told = with_owner(given, look)
    assert told["mode"] == "shadow" and told["report"]["updates_in_force"] == 3


def test_a_second_process_on_the_same_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "WAIT_S", 0.2)
    with (
        locked_folder(tmp_path),
        pytest.raises(Error, match="another server uses the folder"),
        locked_folder(tmp_path),
    ):
        pass


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    entries = [
        f'[[tokens]]\nname = "{name}"\nsha256 = "{sha256(name.encode()).hexdigest()}"\n{more}\n'
        for name, more in TOKENS.items()
    ]
    with Server(tmp_path_factory.mktemp("deleting"), SMALL + "".join(entries)) as running:
        yield running


def test_a_tenant_is_deleted_with_everything_and_only_by_an_admin(guarded):
    path = f"{TENANTS}/leaving"
    with guarded.client("operator") as client, guarded.client("user") as user:
        asked = {"tenant": "leaving", "query": query(1), "adapt": False}
        key = {"Idempotency-Key": "again"}
        first = client.post(SEARCH, json=asked, headers=key).json()
        search(client, range(8), noise=90, tenant="leaving")
        learnt(client, "leaving", 1)
        for name in ("kept", "also"):
            assert client.post(f"{path}/snapshots", json={"name": name}).status_code == 200
        assert client.delete(f"{path}/snapshots/also").status_code == 204
        assert client.delete(f"{path}/snapshots/also").status_code == 404
        assert [one["name"] for one in client.get(path).json()["snapshots"]] == ["kept"]
        with guarded.client("other") as other:
            refused = [user.delete(path).status_code, other.delete(path).status_code]
        assert refused == [403, 403]
        assert client.post(SEARCH, json=asked, headers=key).json() == first
        assert client.delete(path).status_code == 204
        assert client.delete(path).status_code == client.get(path).status_code == 404
        again = client.post(SEARCH, json=asked, headers=key).json()
        assert again["request_id"] != first["request_id"]
        told = client.get(path).json()
    assert (told["queries"], told["updates"], told["snapshots"]) == (1, 0, [])


def test_a_header_that_names_another_tenant_is_refused(guarded):
    with guarded.client("operator") as client:
        asked = {"tenant": "named", "query": query(1)}
        same = client.post(SEARCH, json=asked, headers={"X-Queryshift-Tenant": "named"})
        other = client.post(SEARCH, json=asked, headers={"X-Queryshift-Tenant": "else"})
        path = client.get(f"{TENANTS}/named", headers={"X-Queryshift-Tenant": "else"})
    assert (same.status_code, other.status_code, path.status_code) == (200, 400, 400)
    assert 'X-Queryshift-Tenant is "else"' in other.json()["detail"]


def test_an_answer_is_known_by_its_key_after_a_kill(tmp_path):
    asked, key = {"tenant": "one", "query": query(1)}, {"Idempotency-Key": "mine"}
    with Server(tmp_path) as server:
        with server.client() as client:
            first = client.post(SEARCH, json=asked, headers=key).json()
        server.kill()
        server.start()
        with server.client() as client:
            again = client.post(SEARCH, json=asked, headers=key)
            other = client.post(SEARCH, json={**asked, "k": 3}, headers=key)
            new = client.post(SEARCH, json=asked, headers={"Idempotency-Key": "new"}).json()
    assert again.json() == first and other.status_code == 409
    assert new["request_id"] != first["request_id"]
