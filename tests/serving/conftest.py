import pytest

from running_server import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One server without tokens, shared by all tests that do not end it."""
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running
