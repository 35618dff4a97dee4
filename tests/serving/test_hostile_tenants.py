"""What a tenant that means harm can do to others: nothing."""

import json
import re
import threading
import time
from hashlib import sha256
from pathlib import Path

import pytest
from queries_to_send import SEARCH, TENANTS, learnt, query, search

from running_server import SMALL, Server

ROOT = Path(__file__).parents[2]
ALL = 'scopes = ["read", "adapt", "admin"]'
TOKENS = {"mallory": f'{ALL}\ntenants = ["mallory"]', "operator": ALL}
BOUNDS = "[tenants]\nsnapshots = 2\nknown = 8\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    tokens = "".join(
        f'[[tokens]]\nname = "{name}"\nsha256 = "{sha256(name.encode()).hexdigest()}"\n{more}\n'
        for name, more in TOKENS.items()
    )
    with Server(tmp_path_factory.mktemp("shared"), SMALL + BOUNDS + tokens) as running:
        yield running


def test_a_tenant_that_poisons_its_session_changes_no_answer_of_another(shared):
    asked = {"noise": 60, "tenant": "alice", "adapt": False}
    with shared.client("operator") as alice, shared.client("mallory") as mallory:
        search(alice, range(8), noise=60, tenant="alice")
        learnt(alice, "alice", 1)
        answers = search(alice, range(16, 24), **asked)["answers"]
        before = alice.get(f"{TENANTS}/alice").json()
        for start in range(0, 32, 8):
            search(mallory, range(start, start + 8), noise=90, tenant="mallory")
        poisoned = learnt(mallory, "mallory", 4)
        after = alice.get(f"{TENANTS}/alice").json()
        assert search(alice, range(16, 24), **asked)["answers"] == answers
    assert poisoned["updates"] > 0
    assert after["updates"] == before["updates"] and after["report"] == before["report"]


def test_a_flood_of_teaching_does_not_keep_a_quiet_tenant_from_learning(shared):
    ended = threading.Event()

    def flood() -> None:
        with shared.client("mallory") as client:
            while not ended.is_set():
                client.post(SEARCH, json=body)

    body = {"tenant": "mallory", "queries": [query(number, 60) for number in range(16)]}
    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        with shared.client("operator") as client:
            search(client, range(8), noise=60, tenant="quiet")
            assert learnt(client, "quiet", 1)["updates"] == 1
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_a_request_of_another_tenant_takes_no_feedback(shared):
    with shared.client("operator") as alice, shared.client("mallory") as mallory:
        theirs = search(alice, [1], tenant="alice", adapt=False)["request_id"]
        search(mallory, [1], tenant="mallory", adapt=False)
        clicks = {"request_id": theirs, "clicks": [{"query": 0, "ids": [1]}]}
        own = mallory.post(f"{TENANTS}/mallory/feedback", json=clicks)
        other = mallory.post(f"{TENANTS}/alice/feedback", json=clicks)
        told = alice.get(f"{TENANTS}/alice").json()
    assert (own.status_code, other.status_code, told["clicks"]) == (404, 403, None)


def test_snapshots_of_a_tenant_are_bounded(shared):
    with shared.client("mallory") as client:
        path = f"{TENANTS}/mallory/snapshots"
        made = [client.post(path, json={"name": name}).status_code for name in "abab"]
        refused = client.post(path, json={"name": "c"})
    assert made == [200] * 4
    assert refused.status_code == 409 and "as many as may be" in refused.json()["detail"]


def test_tenants_are_bounded(shared):
    with shared.client("operator") as client:
        search(client, [1], tenant="alice")
        bodies = [{"tenant": f"t{number}", "query": query(1)} for number in range(9)]
        answers = [client.post(SEARCH, json=body) for body in bodies]
        search(client, [1], tenant="alice")
    assert answers[-1].status_code == 403 and "tenants.known" in answers[-1].json()["detail"]


def test_odd_requests_add_no_series(shared):
    with shared.client("operator") as client:

        def series() -> set[str]:
            return {line.split(" ")[0] for line in client.get("/metrics").text.splitlines()}

        client.get("/nowhere")
        client.get(f"{TENANTS}/nobody")
        client.get("/v1/collections/other")
        client.request("ODD", "/")
        series()  # the scrape itself is one
        before = None
        while before != (before := series()):  # what tests before still learn may add events
            time.sleep(0.5)
        for number in range(20):
            client.get(f"/nowhere/{number}", headers={"X-Request-Id": f"odd-{number}"})
            client.get(f"{TENANTS}/nobody-{number}")
            client.get(f"/v1/collections/other-{number}")
            client.request(f"ODD{number}", "/")
        assert series() == before


def test_the_log_keeps_one_line_for_each_request(shared):
    forged = '\n{"message": "forged"}'
    with shared.client("mallory") as client:
        client.get("/v1/collections", params={"after": forged})
        client.post(SEARCH, json={"tenant": forged, "query": query(1)})
        client.post(SEARCH, content=forged, headers={"Content-Type": "application/json"})
    lines = [line for line in shared.log.read_text().splitlines() if line.startswith("{")]
    assert len(lines) > 3 and all(json.loads(line)["message"] != "forged" for line in lines)


def test_every_test_that_the_page_names_is_there():
    page = (ROOT / "docs" / "service-security.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    sources = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py"))
    assert len(named) > 25
    assert {name for name in named if f"def {name}(" not in sources} == set()
