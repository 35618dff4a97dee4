"""Every route of a running server gives what the contract says."""

import base64
import re
from io import BytesIO

import pytest
from PIL import Image
from queries_to_send import SEARCH, TENANTS, first_ids, learnt, query, search

import queryshift as qs
from queryshift.sessions.policy import default_method

COLLECTION = "/v1/collections/tangram"


def test_a_search_finds_what_the_images_show(server):
    with server.client() as client:
        told = search(client, [3, 5], tenant="finder", k=3)
    assert first_ids(told) == [3, 5]
    assert [len(answer["hits"]) for answer in told["answers"]] == [3, 3]
    assert told["tenant"] == "finder" and told["mode"] == "live" and told["adapt"] is True
    scores = [hit["score"] for hit in told["answers"][0]["hits"]]
    assert scores == sorted(scores, reverse=True)
    assert told["answers"][0]["source"] is not None  # this collection keeps queries


def test_one_query_and_many_get_the_same_answers(server):
    body = {"tenant": "forms", "adapt": False, "k": 4}
    with server.client() as client:
        one = client.post(SEARCH, json={**body, "query": query(7)}).json()
        many = client.post(SEARCH, json={**body, "queries": [query(7), query(8)]}).json()
    assert one["answers"][0]["source"] == many["answers"][0]["source"]
    assert one["adapt"] is False


def test_excluded_candidates_are_not_found_and_unknown_ids_are_ignored(server):
    with server.client() as client:
        told = search(client, [3, 5], tenant="shy", exclude=[[3, "gone"], None])
    assert 3 not in [hit["id"] for hit in told["answers"][0]["hits"]]
    assert first_ids(told)[1] == 5


def test_a_bad_query_among_good_ones_is_told_apart(server):
    broken = {"image": base64.b64encode(b"no image").decode()}
    with server.client() as client:
        body = {"tenant": "mixed", "queries": [query(1), broken, query(2)]}
        answers = client.post(SEARCH, json=body).json()["answers"]
        alone = client.post(SEARCH, json={"tenant": "mixed", "query": broken})
    assert [answer["error"] is None for answer in answers] == [True, False, True]
    assert answers[2]["hits"][0]["id"] == 2
    assert "cannot be read as an image" in answers[1]["error"]["detail"]
    assert alone.status_code == 422 and alone.json()["title"] == "Unprocessable Entity"


def test_collections_say_what_they_are(server):
    with server.client() as client:
        (listed,) = client.get("/v1/collections").json()["collections"]
        told = client.get(COLLECTION).json()
    assert told["name"] == listed["name"] == "tangram"
    assert told["queries"] == "image" and told["modalities"] == ["image"]
    assert told["candidates"] == 64 and told["dimension"] == 128
    assert told["method"] == default_method(qs.load("tangram")["image"]).name
    assert told["hubs"] is True
    assert told["guard"]["collapse"] == 0.9 and told["reference"]["queries"] >= 2
    assert told["ordinary"] == told["reference"]  # its former name
    assert told["keeps_queries"] is True and "fog" in told["corruptions"]


def test_samples_can_be_asked_corrupted_and_shown(server):
    with server.client() as client:
        samples = client.get(f"{COLLECTION}/samples", params={"n": 2}).json()["samples"]
        wish = {"query": samples[1]["query"], "corruption": "fog", "severity": 5}
        foggy = client.post(f"{COLLECTION}/corrupt", json=wish).json()["query"]
        several = {
            **wish,
            "query": None,
            "queries": [sample["query"] for sample in reversed(samples)],
        }
        made = client.post(f"{COLLECTION}/corrupt", json=several).json()["queries"]
        shown = client.get(f"{COLLECTION}/candidates/1").json()
        missing = client.get(f"{COLLECTION}/candidates/999")
        asked = {"tenant": "sampler", "query": samples[1]["query"]}
        told = client.post(SEARCH, json=asked).json()
    assert len(samples) == 2 and first_ids(told) == samples[1]["right"]
    assert foggy != samples[1]["query"] and made[0] == foggy and len(made) == 2
    assert Image.open(BytesIO(base64.b64decode(foggy["image"]))).size == (64, 64)
    assert shown["id"] == 1 and len(shown["text"]) > 10
    assert missing.status_code == 404


def test_a_tenant_learns_and_its_report_and_history_say_so(server):
    with server.client() as client:
        for start in (0, 8, 16):
            search(client, range(start, start + 8), noise=90, tenant="noisy")
            learnt(client, "noisy", start // 8 + 1)
        told = client.get(f"{TENANTS}/noisy").json()
        rows = client.get(f"{TENANTS}/noisy/history").json()
        later = client.get(f"{TENANTS}/noisy/history", params={"since": 2}).json()
    assert told["queries"] == 24 and told["batches"] == 3 and 0 < told["updates"] <= 3
    measures = {"shift_score", "spread", "gap", "entropy", "agreement"}
    assert told["shift"].keys() == measures | {"strangeness"}  # its former name too
    assert told["report"]["updates_in_force"] > 0
    assert [row["batch"] for row in rows["rows"]] == [1, 2, 3] and rows["next"] == 3
    assert all(
        row["queries"] == 8 and row["shift_score"] == row["strangeness"] is not None
        for row in rows["rows"]
    )
    assert [row["batch"] for row in later["rows"]] == [3]


def test_kept_queries_are_shown_with_both_answers_newest_first(server):
    with server.client() as client:
        search(client, [1], tenant="kept")
        newest = search(client, [2], tenant="kept")["request_id"]
        shown = client.get(f"{TENANTS}/kept/latest").json()["queries"]
    assert len(shown) == 2 and shown[0]["request_id"] == newest
    assert shown[0]["source"][0]["id"] == shown[0]["adapted"][0]["id"] == 2
    assert Image.open(BytesIO(base64.b64decode(shown[0]["query"]["image"]))).size == (64, 64)


def test_modes_shadow_and_frozen_answer_by_the_source(server):
    with server.client() as client:
        live = [search(client, range(8), noise=90, tenant="modal") for _ in range(2)]
        told = learnt(client, "modal", 1)
        assert told["report"]["updates_in_force"] > 0
        shadow = client.post(f"{TENANTS}/modal/mode", json={"mode": "shadow"}).json()
        in_shadow = search(client, range(4), noise=90, tenant="modal", adapt=False)
        client.post(f"{TENANTS}/modal/mode", json={"mode": "frozen"})
        frozen = search(client, range(4), noise=90, tenant="modal")
        both = search(client, range(4), noise=90, tenant="modal", compare=True)
        before = client.get(f"{TENANTS}/modal").json()
        search(client, range(8), noise=90, tenant="modal")
        after = client.get(f"{TENANTS}/modal").json()
    assert live[0]["mode"] == "live" and shadow["mode"] == "shadow"
    assert [a["hits"] for a in in_shadow["answers"]] == [a["source"] for a in in_shadow["answers"]]
    assert frozen["mode"] == "frozen" and frozen["adapt"] is False
    by_source = [answer["source"] for answer in both["answers"]]
    for answers in (in_shadow["answers"], frozen["answers"]):
        for hits, source in zip([answer["hits"] for answer in answers], by_source, strict=True):
            assert hits[0]["id"] == source[0]["id"]
            scores = [hit["score"] for hit in source]
            assert [hit["score"] for hit in hits] == pytest.approx(scores, abs=1e-5)
    assert all(len(answer["adapted"]) == 10 for answer in both["answers"])
    assert after["pending"] == before["pending"] and after["batches"] == before["batches"]


def test_snapshots_are_kept_listed_and_rolled_back_to(server):
    with server.client() as client:
        search(client, range(8), noise=90, tenant="snapped")
        at_snapshot = learnt(client, "snapped", 1)["report"]["updates_in_force"]
        made = client.post(f"{TENANTS}/snapped/snapshots", json={"name": "good"}).json()
        search(client, range(8, 16), noise=90, tenant="snapped")
        assert learnt(client, "snapped", 2)["report"]["updates_in_force"] > at_snapshot
        listed = client.get(f"{TENANTS}/snapped/snapshots").json()["snapshots"]
        back = client.post(f"{TENANTS}/snapped/rollback", json={"name": "good"}).json()
        missing = client.post(f"{TENANTS}/snapped/rollback", json={"name": "bad"})
    assert listed == [made] and made["name"] == "good" and made["batches"] == 1
    assert back["report"]["updates_in_force"] == at_snapshot and back["snapshots"] == listed
    assert missing.status_code == 404 and "no snapshot" in missing.json()["detail"]


def test_undo_takes_one_batch_back_and_reset_all(server):
    with server.client() as client:
        for start in (0, 8):
            search(client, range(start, start + 8), noise=90, tenant="undone")
            learnt(client, "undone", start // 8 + 1)
        undone = client.post(f"{TENANTS}/undone/undo").json()
        again = client.post(f"{TENANTS}/undone/undo")
        reset = client.post(f"{TENANTS}/undone/reset").json()
    assert undone["report"]["updates_in_force"] == 3
    assert again.status_code == 422 and "no batch to undo" in again.json()["detail"]
    assert reset["report"]["updates_in_force"] == 0 and reset["queries"] == 16


def test_clicks_score_source_and_adapted_side_by_side(server):
    with server.client() as client:
        client.post(f"{TENANTS}/clicker/mode", json={"mode": "shadow"})
        told = search(client, [4, 6], tenant="clicker")
        clicks = [{"query": 0, "ids": [4]}, {"query": 1, "ids": [6]}]
        body = {"request_id": told["request_id"], "clicks": clicks}
        scored = client.post(f"{TENANTS}/clicker/feedback", json=body).json()
        report = client.get(f"{TENANTS}/clicker").json()["clicks"]
        unknown = client.post(f"{TENANTS}/clicker/feedback", json={**body, "request_id": "nobody"})
    assert scored["clicks"] == 2 and scored["source"] == scored["adapted"] == 1.0
    assert report["clicks"] == 2 and unknown.status_code == 404


@pytest.mark.parametrize("name", ["reference", "ordinary"])
def test_a_sample_of_reference_queries_is_put_in_force(server, name):
    with server.client() as client:
        search(client, [1], tenant="before")
        body = {"queries": [query(number) for number in range(20, 50)]}
        put = client.put(f"{COLLECTION}/{name}", json=body)
        told = client.get(COLLECTION).json()
        after = search(client, [1], tenant="before")
    assert put.status_code == 200, put.text
    assert put.json() == {"queries": 30} and told["reference"] == {"queries": 30}
    assert first_ids(after) == [1]


def test_tenants_are_listed_in_pages(server):
    with server.client() as client:
        for name in ("page-a", "page-b", "page-c"):
            search(client, [1], tenant=name, adapt=False)
        params = {"after": "page", "limit": 2}
        first = client.get(TENANTS, params=params).json()
        second = client.get(TENANTS, params={**params, "after": first["next"]}).json()
    assert [one["tenant"] for one in first["tenants"]] == ["page-a", "page-b"]
    assert second["tenants"][0]["tenant"] == "page-c"
    assert first["tenants"][0]["queries"] == 1 and first["tenants"][0]["mode"] == "live"


def test_health_metrics_and_openapi(server):
    with server.client() as client:
        search(client, [1], tenant="measured")
        health, ready = client.get("/healthz"), client.get("/readyz")
        metrics, schema = client.get("/metrics").text, client.get("/openapi.json").json()
        page = client.get("/")
    assert health.json() == {"status": "ok"} and ready.json()["disk"] == "ok"
    assert 'queryshift_queries_total{collection="tangram",mode="live"}' in metrics
    assert 'route="/v1/collections/{collection}/search"' in metrics
    assert "measured" not in metrics  # no label has values that clients choose
    assert re.search(r"queryshift_batch_queries_count [1-9]", metrics)
    search_route = schema["paths"]["/v1/collections/{collection}/search"]["post"]
    assert search_route["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    assert search_route["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert (
        page.status_code == 200 and "default-src 'self'" in page.headers["content-security-policy"]
    )
