"""/metrics after a few searches: each count is theirs, no time is longer than all of them took."""

import time

import pytest
from queries_to_send import learnt, search
from starlette.testclient import TestClient

from queryshift.serving.http.limits import Connections
from queryshift.serving.metrics import Metrics
from queryshift.serving.serve import make_app
from queryshift.serving.service import Service
from queryshift.serving.settings import read_settings

TOML = '[collections.tangram]\ncandidates = 16\nmode = "live"\ngather = 2\n'


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """Those of five queries of two tenants, of which two groups were learnt."""
    folder, metrics = tmp_path_factory.mktemp("service"), Metrics()
    (folder / "serve.toml").write_text(TOML)
    settings = read_settings(folder / "serve.toml", data=folder / "data")
    app = make_app(settings, Service(settings, metrics), metrics, Connections(1024))
    updates, value = [], metrics.registry.get_sample_value
    with TestClient(app, base_url="http://127.0.0.1") as client:
        begun = time.perf_counter()
        for tenant, numbers in (("one", [1, 2]), ("other", [3, 4])):
            search(client, numbers, 90, tenant=tenant)
            updates.append(learnt(client, tenant, 1)["updates"])
        search(client, [5], 90, tenant="one")
        took = time.perf_counter() - begun
        while value("queryshift_shift_score_count", {"collection": "tangram"}) < 2:
            assert time.perf_counter() < begun + took + 30
            time.sleep(0.01)
        yield value, took, sum(updates)


COUNTS = {
    "queries_total collection=tangram mode=live": 5,
    "shift_score_count collection=tangram": 2,
    "batch_queries_sum": 5,
    "batch_queries_count": 3,
    "forward_seconds_count": 3,
    "update_seconds_count": 2,
    "learning_delay_seconds_count": 2,
    "request_seconds_count route=/v1/collections/{collection}/search status=2xx": 3,
    "tenants_loaded collection=tangram": 2,
    "tenants_known collection=tangram": 2,
    "queries_waiting": 0,
    "groups_waiting": 0,
    "drops_total collection=tangram": 0,
    "lost_updates_total collection=tangram": 0,
    "failed_updates_total collection=tangram": 0,
    "tenant_evictions_total collection=tangram": 0,
    "hangups_total": 0,
    "failed_saves_total": 0,
    "disk_trouble": 0,
}
TIMES = [name.replace("_count", "_sum") for name in COUNTS if "seconds_count" in name]


def found(metrics, name):
    name, *labels = name.split()
    return metrics[0](f"queryshift_{name}", dict(one.split("=") for one in labels))


@pytest.mark.parametrize("name", COUNTS)
def test_counts(metrics, name):
    assert (found(metrics, name) or 0) == COUNTS[name]


@pytest.mark.parametrize("name", TIMES)
def test_times(metrics, name):
    assert 0 < found(metrics, name) < metrics[1]


def test_updates_are_those_of_the_reports(metrics):
    assert found(metrics, "updates_total collection=tangram") == metrics[2] > 0
