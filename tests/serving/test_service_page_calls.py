"""What the page asks of a running server: both answers in every mode, many queries corrupted."""

import pytest
from queries_to_send import SEARCH, TENANTS

COLLECTION = "/v1/collections/tangram"


def samples(client, count):
    told = client.get(f"{COLLECTION}/samples", params={"n": count}).json()
    return [sample["query"] for sample in told["samples"]]


@pytest.mark.parametrize("mode", ["live", "shadow", "frozen"])
def test_both_answers_are_given_where_they_are_asked_for(server, mode):
    asked = {"tenant": f"both-{mode}", "k": 3, "adapt": False}
    with server.client() as client:
        asked["queries"] = samples(client, 2)
        client.post(SEARCH, json=asked).raise_for_status()
        changed = client.post(f"{TENANTS}/both-{mode}/mode", json={"mode": mode})
        told = client.post(SEARCH, json={**asked, "compare": True}).json()
        plain = client.post(SEARCH, json=asked).json()
    assert changed.json()["mode"] == told["mode"] == mode
    for answer in told["answers"]:
        assert len(answer["source"]) == len(answer["adapted"]) == 3
        assert answer["hits"] == answer["adapted" if mode == "live" else "source"]
    assert all("adapted" not in answer for answer in plain["answers"])


def test_many_queries_are_corrupted_each_in_its_own_way(server):
    wish = {"corruption": "gaussian_noise", "severity": 3}
    with server.client() as client:
        (query,) = samples(client, 1)
        many = client.post(f"{COLLECTION}/corrupt", json={**wish, "queries": [query] * 3}).json()
        one = client.post(f"{COLLECTION}/corrupt", json={**wish, "query": query}).json()
        none = client.post(f"{COLLECTION}/corrupt", json=wish)
    assert len({made["image"] for made in many["queries"]}) == 3
    assert one["query"] == many["queries"][0] != query
    assert none.status_code == 422 and "got no query" in none.json()["detail"]


def test_a_trial_leaves_no_trace(server):
    with server.client() as client:
        (query,) = samples(client, 1)
        body = {"query": query, "tenant": "tried", "trial": True, "compare": True}
        told = client.post(f"{COLLECTION}/search", json=body).json()
        unknown = client.get(f"{COLLECTION}/tenants/tried")
        client.post(f"{COLLECTION}/search", json={"query": query, "tenant": "tried"})
        before = client.get(f"{COLLECTION}/tenants/tried").json()
        again = client.post(f"{COLLECTION}/search", json=body).json()
        after = client.get(f"{COLLECTION}/tenants/tried").json()
        kept = client.get(f"{COLLECTION}/tenants/tried/latest").json()["queries"]
    assert unknown.status_code == 404 and told["adapt"] is again["adapt"] is False
    for answer in (*told["answers"], *again["answers"]):
        assert answer["adapted"][0]["id"] == answer["source"][0]["id"] == answer["hits"][0]["id"]
    assert after == before and after["queries"] == 1 and len(kept) == 1
