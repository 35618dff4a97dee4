"""The whole service in this process, through its routes: what each route does, to the edge."""

import time

import pytest
from queries_to_send import SEARCH, TENANTS, first_ids, learnt, query, search
from starlette.testclient import TestClient

from queryshift.serving.http.limits import Connections
from queryshift.serving.metrics import Metrics
from queryshift.serving.serve import make_app
from queryshift.serving.service import Service
from queryshift.serving.settings import read_settings

TOML = """
[collections.tangram]
candidates = 64
mode = "live"
gather = 4
keep_queries = 3

[collections.bare]
candidates = 16
mode = "live"
gather = 2
keep_queries = 1
guard = false

[limits]
queries = 12
hits = 20
hits_in_all = 40
exclude = 5
clicks = 4

[tenants]
snapshots = 2
"""
HOME = "/v1/collections/tangram"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    (folder / "serve.toml").write_text(TOML)
    settings = read_settings(folder / "serve.toml", data=folder / "data")
    metrics = Metrics()
    app = make_app(settings, Service(settings, metrics), metrics, Connections(1024))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


def told(answer, status: int = 200):
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


def operate(client, tenant: str, what: str, status: int = 200, **body):
    return told(client.post(f"{TENANTS}/{tenant}/{what}", json=body or None), status)


def counted(client, name: str) -> float:
    """The sum of a metric over its labels."""
    lines = client.get("/metrics").text.splitlines()
    return sum(float(one.split()[-1]) for one in lines if one.startswith(f"queryshift_{name}"))


@pytest.mark.parametrize(("mode", "learns"), [("live", True), ("shadow", True), ("frozen", False)])
def test_a_search_in_each_mode(client, mode, learns):
    assert operate(client, mode, "mode", mode=mode)["mode"] == mode
    by = "adapted" if mode == "live" else "source"  # hub correction belongs to the adapted model
    found = search(client, [1, 2], tenant=mode, k=5)
    assert (found["mode"], found["adapt"], found["collection"]) == (mode, learns, "tangram")
    assert first_ids(found) == [1, 2] and found["tenant"] == mode
    for answer in found["answers"]:
        scores = [hit["score"] for hit in answer["hits"]]
        assert len(scores) == 5 and scores == sorted(scores, reverse=True)
        assert answer["by"] == by and "adapted" not in answer and answer["error"] is None
    report = told(client.get(f"{TENANTS}/{mode}"))
    assert (report["queries"], report["pending"], report["batches"]) == (2, 2 * learns, 0)
    assert report["report"]["answers_by"] == by and report["shift"] is None


def test_who_asks_for_both_answers_has_both_in_any_mode(client):
    for mode in ("live", "frozen"):
        operate(client, "both", "mode", mode=mode)
        (answer,) = search(client, [3], tenant="both", compare=True, adapt=False)["answers"]
        assert [hit["id"] for hit in answer["source"]] == [hit["id"] for hit in answer["adapted"]]
        assert len(answer["hits"]) == 10 and answer["hits"] == answer["source"]


def test_a_group_is_learnt_when_it_is_whole(client):
    before = counted(client, "queries_total")
    assert search(client, [0, 1, 2], 90, tenant="learner")["adapt"] is True
    assert search(client, [7], 90, tenant="learner", adapt=False)["adapt"] is False
    report = told(client.get(f"{TENANTS}/learner"))
    assert (report["queries"], report["batches"], report["pending"]) == (4, 0, 3)
    search(client, [3], 90, tenant="learner")
    report = learnt(client, "learner", 1)
    assert (report["queries"], report["batches"], report["pending"]) == (5, 1, 0)
    assert report["drops"] == 0 and report["delay"] >= 0
    assert counted(client, "queries_total") == before + 5
    assert counted(client, 'batch_queries_bucket{le="1.0"}') >= 2


def test_a_request_is_logged_with_what_it_was_about_and_its_milliseconds(client, caplog):
    caplog.set_level("INFO", "queryshift.serving.requests")
    begun = time.perf_counter()
    found = search(client, [1], tenant="logged")
    most = 1000 * (time.perf_counter() - begun)
    (line,) = [one for one in caplog.records if getattr(one, "tenant", None) == "logged"]
    assert (line.status, line.collection, line.caller) == (200, "tangram", "")
    assert line.request_id == found["request_id"] and line.route.endswith("/search")
    assert 0 < line.ms <= most + 0.01


def test_trials_leave_no_trace(client):
    found = search(client, [1], tenant="trial", trial=True)
    assert found["adapt"] is False and found["mode"] == "live" and first_ids(found) == [1]
    told(client.get(f"{TENANTS}/trial"), 404)


def test_the_history_is_read_in_parts(client):
    for number in range(3):
        search(client, range(4 * number, 4 * number + 4), 90, tenant="history")
        learnt(client, "history", number + 1)
    rows = told(client.get(f"{TENANTS}/history/history"))
    assert [row["batch"] for row in rows["rows"]] == [1, 2, 3] and rows["next"] == 3
    assert [row["queries"] for row in rows["rows"]] == [4, 4, 4]
    part = told(client.get(f"{TENANTS}/history/history?since=1&limit=1"))
    assert [row["batch"] for row in part["rows"]] == [2] and part["next"] == 2
    end = told(client.get(f"{TENANTS}/history/history?since=3"))
    assert end == {"rows": [], "next": 3}
    for wrong in ("since=-1", "limit=0", "limit=5001"):
        told(client.get(f"{TENANTS}/history/history?{wrong}"), 422)
    told(client.get(f"{TENANTS}/history/history?limit=5000"))


def test_what_was_learnt_is_undone_kept_put_back_and_forgotten(client):
    search(client, range(4), 90, tenant="kept")
    learnt(client, "kept", 1)
    about = operate(client, "kept", "snapshots", name="before")
    assert about["name"] == "before" and about["batches"] == 1
    before = told(client.get(f"{TENANTS}/kept"))["report"]["updates_in_force"]
    search(client, range(4, 8), 90, tenant="kept")
    after = learnt(client, "kept", 2)["report"]["updates_in_force"]
    assert operate(client, "kept", "undo")["report"]["updates_in_force"] == before
    assert "no batch to undo" in operate(client, "kept", "undo", 422)["detail"]
    rolled = operate(client, "kept", "rollback", name="before")
    assert rolled["report"]["updates_in_force"] == before <= after
    assert operate(client, "kept", "reset")["report"]["updates_in_force"] == 0
    operate(client, "kept", "snapshots", name="second")
    assert "2 snapshots" in operate(client, "kept", "snapshots", 409, name="third")["detail"]
    told(client.delete(f"{TENANTS}/kept/snapshots/before"), 204)
    told(client.delete(f"{TENANTS}/kept/snapshots/before"), 404)
    operate(client, "kept", "rollback", 404, name="before")
    kept = told(client.get(f"{TENANTS}/kept/snapshots"))["snapshots"]
    assert [one["name"] for one in kept] == ["second"]


def test_the_latest_queries_are_shown_newest_first(client):
    for number in range(5):
        search(client, [number], tenant="latest")
    latest = told(client.get(f"{TENANTS}/latest/latest"))["queries"]
    assert [one["source"][0]["id"] for one in latest] == [4, 3, 2]
    assert all(one["query"]["image"] and one["by"] == "adapted" for one in latest)


def test_the_latest_query_is_kept_and_who_answered_it_is_told(client):
    path = SEARCH.replace("tangram", "bare")

    def ask(number: int):
        body = {"query": query(number, 90), "tenant": "bare", "k": 3}
        return told(client.post(path, json=body))["answers"][0]

    first = ask(0)
    assert first["by"] == "source" and len(first["source"]) == 3
    ask(1)
    tenants = TENANTS.replace("tangram", "bare")
    deadline = time.monotonic() + 30
    while (report := told(client.get(f"{tenants}/bare")))["updates"] < 1:
        assert time.monotonic() < deadline, report
        time.sleep(0.02)
    assert report["report"]["answers_by"] == "source"  # who gave the latest answer
    assert ask(2)["by"] == "both"  # there are reference queries, and with them a guard
    assert told(client.get(f"{tenants}/bare"))["report"]["answers_by"] == "both"
    (kept,) = told(client.get(f"{tenants}/bare/latest"))["queries"]
    assert kept["by"] == "both" and len(kept["source"]) == len(kept["adapted"]) == 3


def test_each_click_counts_once(client):
    found = search(client, [5, 6], tenant="clicks", compare=True)
    asked = {"request_id": found["request_id"]}
    clicks = [{"query": 0, "ids": [5, 5]}, {"query": 1, "ids": [6]}, {"ids": ["none"]}]
    first = operate(client, "clicks", "feedback", clicks=clicks, **asked)
    assert (first["counted"], first["clicks"], first["source"]) == (2, 2, 1.0)
    assert first["better"] is None and first["needed"] == 30
    again = operate(client, "clicks", "feedback", clicks=clicks, **asked)
    assert (again["counted"], again["clicks"]) == (0, 2)
    beyond = [{"query": 2, "ids": [1]}]
    assert "none of the request's 2" in str(
        operate(client, "clicks", "feedback", 422, clicks=beyond, **asked)
    )
    many = [{"query": 0, "ids": [1, 2, 3]}, {"query": 1, "ids": [1, 2]}]
    assert "at most 4 clicks" in str(
        operate(client, "clicks", "feedback", 422, clicks=many, **asked)
    )
    operate(client, "clicks", "feedback", clicks=[{"query": 0, "ids": [1, 2, 3, 4]}], **asked)
    operate(client, "clicks", "feedback", 404, request_id="another", clicks=clicks)
    assert told(client.get(f"{TENANTS}/clicks"))["clicks"]["clicks"] >= 2


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ({"queries": 12, "k": 3}, None),
        ({"queries": 13, "k": 3}, "got 13 queries, at most 12"),
        ({"queries": 1, "k": 20}, None),
        ({"queries": 1, "k": 21}, "k is 21, at most 20"),
        ({"queries": 4, "k": 10}, None),
        ({"queries": 4, "k": 11}, "more than 40 hits"),
        ({"queries": 1, "k": 1, "exclude": [[1, 2, 3, 4, 5]]}, None),
        ({"queries": 1, "k": 1, "exclude": [[1, 2, 3, 4, 5, 6]]}, "at most 5 ids"),
        ({"queries": 0}, "got no query"),
        ({"queries": 1, "k": 0}, "k: "),
        ({"queries": 1, "k": "3"}, "k: "),  # text is no number
        ({"queries": 1, "query": query(1), "k": 1}, None),
        ({"queries": 2, "exclude": [[1]]}, "exclusions for 1 of 2"),
    ],
)
def test_a_search_takes_as_much_as_the_limits_say(client, body, refused):
    many = {"queries": [query(number) for number in range(body["queries"])]}
    answer = client.post(SEARCH, json={"tenant": "limits", "adapt": False, **body, **many})
    if refused is None:
        asked = body["queries"] + ("query" in body)
        answers = told(answer)["answers"]
        assert [len(one["hits"]) for one in answers] == [body["k"]] * asked
        assert all(hit["id"] not in (1, 2) for hit in answers[0]["hits"] if "exclude" in body)
    else:
        assert refused in told(answer, 422)["detail"]


def test_one_query_that_cannot_be_read_costs_the_others_nothing(client):
    body = {"queries": [query(1), {"image": "bm9uZQ=="}, query(2)], "tenant": "bad"}
    first, bad, last = told(client.post(SEARCH, json=body))["answers"]
    assert first["hits"][0]["id"] == 1 and last["hits"][0]["id"] == 2
    assert bad["hits"] == [] and bad["error"]["status"] == 422 and bad["by"] is None
    alone = told(client.post(SEARCH, json={"query": {"image": "bm9uZQ=="}}), 422)
    assert alone["detail"] == bad["error"]["detail"]


@pytest.mark.parametrize(
    ("given", "got"), [({}, "nothing"), ({"text": "a", "vector": [1.0]}, "text and vector")]
)
def test_a_query_of_another_kind_is_told_what_it_is(client, given, got):
    refused = told(client.post(SEARCH, json={"query": given}), 422)
    assert refused["detail"] == f"got a query of {got}, expected image."


def test_a_request_that_is_sent_again_is_answered_as_before(client):
    body, key = {"tenant": "again", "query": query(4)}, {"Idempotency-Key": "k" * 200}
    first, second = (told(client.post(SEARCH, json=body, headers=key)) for _ in range(2))
    assert first == second
    assert told(client.get(f"{TENANTS}/again"))["queries"] == 1
    told(client.post(SEARCH, json={**body, "k": 3}, headers=key), 409)
    told(client.post(SEARCH, json=body, headers={"Idempotency-Key": "k" * 201}), 422)


def test_samples_are_queries_with_what_is_right_for_them(client):
    samples = told(client.get(f"{HOME}/samples"))["samples"]
    assert len(samples) == 8 and len(told(client.get(f"{HOME}/samples?n=17"))["samples"]) == 17
    assert len({one["query"]["image"] for one in samples}) == 8
    asked = {"queries": [one["query"] for one in samples], "k": 5, "trial": True}
    answers = told(client.post(SEARCH, json=asked))["answers"]
    right = [
        one["hits"][0]["id"] in sample["right"]
        for one, sample in zip(answers, samples, strict=True)
    ]
    assert sum(right) >= 6
    for wrong in (0, 257):
        told(client.get(f"{HOME}/samples?n={wrong}"), 422)


@pytest.mark.parametrize("severity", [0, 1, 5, 6])
def test_queries_are_corrupted_in_five_severities(client, severity):
    body = {"query": query(1), "corruption": "gaussian_noise", "severity": severity}
    answer = client.post(f"{HOME}/corrupt", json=body)
    if severity in (0, 6):
        assert "severity: " in told(answer, 422)["detail"]
    else:
        assert told(answer)["query"]["image"] != query(1)["image"]


def test_what_is_told_of_a_collection(client):
    about = told(client.get(HOME))
    assert (about["candidates"], about["gather"], about["mode"]) == (64, 4, "live")
    assert about["keeps_queries"] is True and about["hubs"] is True
    assert about["modalities"] == ["image"] and about["queries"] == "image"
    assert about["guard"]["collapse"] == 0.5 and "gaussian_noise" in about["corruptions"]
    listed = told(client.get("/v1/collections"))["collections"]
    assert listed[0] == about and [one["name"] for one in listed] == ["tangram", "bare"]
    assert listed[1]["guard"] == {"collapse": 1.0, "spread": 0.0, "reference": None}
    assert told(client.get(f"{HOME}/candidates/5"))["id"] == 5
    told(client.get(f"{HOME}/candidates/64"), 404)
    told(client.get("/v1/collections/other"), 404)
    ready = told(client.get("/readyz"))
    assert ready == {"status": "ready", "disk": "ok", "collections": ["tangram", "bare"]}


def test_tenants_are_listed_in_parts_and_deleted(client):
    before = told(client.get(HOME))["tenants"]
    for name in ("z-1", "z-2", "z-3"):
        search(client, [1], tenant=name)
    assert told(client.get(HOME))["tenants"] == before + 3
    part = told(client.get(f"{TENANTS}?after=z&limit=2"))
    assert [one["tenant"] for one in part["tenants"]] == ["z-1", "z-2"] and part["next"] == "z-2"
    rest = told(client.get(f"{TENANTS}?after=z-2&limit=2"))
    assert [one["tenant"] for one in rest["tenants"]] == ["z-3"] and rest["next"] is None
    assert rest["tenants"][0]["queries"] == 1
    told(client.delete(f"{TENANTS}/z-1"), 204)
    told(client.delete(f"{TENANTS}/z-1"), 404)
    assert told(client.get(HOME))["tenants"] == before + 2
    for wrong in ("0", "1001"):
        told(client.get(f"{TENANTS}?limit={wrong}"), 422)
    told(client.get(f"{TENANTS}?limit=1000"))


def test_reference_queries_are_measured_and_in_force_at_once(client):
    body = {"queries": [query(number) for number in range(12)]}
    assert told(client.put(f"{HOME}/reference", json=body)) == {"queries": 12}
    assert told(client.get(HOME))["reference"] == {"queries": 12}
    too_few = {"queries": [query(1)]}
    assert "queries: " in told(client.put(f"{HOME}/reference", json=too_few), 422)["detail"]


def test_a_request_for_another_tenant_than_its_header_says_is_refused(client):
    headers = {"X-Queryshift-Tenant": "one"}
    refused = client.post(SEARCH, json={"tenant": "two", "query": query(1)}, headers=headers)
    assert '"one"' in told(refused, 400)["detail"]
    told(client.post(SEARCH, json={"tenant": "one", "query": query(1)}, headers=headers))
