"""Clicks: each counts once, for the latest requests, and nothing is concluded from a few."""

import time
from threading import Thread

import httpx
import pytest
from queries_to_send import SEARCH, TENANTS, query, search

from queryshift import ClickScores
from queryshift.errors import BadInput
from queryshift.serving.answering.answers import Answered
from queryshift.serving.clicks import ENOUGH, MOST_BYTES, RecentAnswers, click_summary
from queryshift.serving.errors import NotFound


def both(*ids):
    hits = [{"id": id, "score": 0.0} for id in ids]
    return [Answered(hits, hits)]


def test_a_click_counts_once_and_one_on_nothing_shown_not_at_all():
    answers = RecentAnswers()
    answers.remember("r", both("a", "b"), most=8)
    assert [click[0] for click in answers.new_clicks("r", [(0, ["b", "b", "z"])])] == ["b"]
    assert [click[0] for click in answers.new_clicks("r", [(0, ["b", "a"])])] == ["a"]
    with pytest.raises(BadInput, match="query 1 is none"):
        list(answers.new_clicks("r", [(1, ["a"])]))


def test_a_click_counts_on_the_first_twenty_places_of_either_answer():
    answers, (one,) = RecentAnswers(), both(*range(30))
    adapted = [{"id": id, "score": 0.0} for id in range(100, 130)]
    answers.remember("r", [Answered(adapted, one.source)], most=8)
    clicked = answers.new_clicks("r", [(0, [19, 20, 119, 120])])
    assert [click[0] for click in clicked] == [19, 119]


def test_the_latest_requests_are_kept_by_number_and_by_bytes():
    answers = RecentAnswers()
    for number in range(6):
        answers.remember(str(number), both("a"), most=4)
    assert list(answers.new_clicks("2", [(0, ["a"])]))
    with pytest.raises(NotFound, match="feedback_requests"):
        list(answers.new_clicks("1", [(0, ["a"])]))
    answers.remember("large", both("a" * MOST_BYTES), most=4)
    assert list(answers.new_clicks("large", [(0, ["a" * MOST_BYTES])]))
    with pytest.raises(NotFound):
        list(answers.new_clicks("5", [(0, ["a"])]))


def test_nothing_is_concluded_from_a_few_clicks():
    few, many = ClickScores({(2, 1): ENOUGH - 1}), ClickScores({(2, 1): ENOUGH})
    assert click_summary(few)["better"] is None and click_summary(few)["interval"] is None
    assert click_summary(many)["better"] == "adapted"


def test_ranks_far_down_do_not_make_the_summary_large():
    counts = {(source, adapted): 1 for source in range(1, 400) for adapted in range(1, 100)}
    begun = time.thread_time()  # of its own: others may have the machine
    told = click_summary(ClickScores(counts))
    assert told["clicks"] == len(counts) and time.thread_time() - begun < 5


def test_the_same_feedback_sent_twice_counts_once(server):
    with server.client() as client:
        client.post(f"{TENANTS}/same-click/mode", json={"mode": "shadow"})
        told = search(client, [4], tenant="same-click")
        body = {"request_id": told["request_id"], "clicks": [{"query": 0, "ids": [4]}]}
        first = client.post(f"{TENANTS}/same-click/feedback", json=body).json()
        again = client.post(f"{TENANTS}/same-click/feedback", json=body).json()
    assert first["clicks"] == again["clicks"] == 1 and first["better"] is None
    assert first["counted"] == 1 and again["counted"] == 0


def test_feedback_may_come_after_hundreds_of_other_requests(server):
    with server.client() as client:
        client.post(f"{TENANTS}/later/mode", json={"mode": "shadow"})
        told = search(client, [4], tenant="later", adapt=False)
        for _ in range(260):
            assert search(client, [1], tenant="later", adapt=False)
        body = {"request_id": told["request_id"], "clicks": [{"query": 0, "ids": [4]}]}
        assert client.post(f"{TENANTS}/later/feedback", json=body).status_code == 200


def test_a_million_clicks_hold_nobody_up(server):
    with server.client() as client:
        client.post(f"{TENANTS}/million/mode", json={"mode": "shadow"})
        body = {"query": query(1), "k": 64, "compare": True, "tenant": "million"}
        told = client.post(SEARCH, json=body).json()
        last = told["answers"][0]["hits"][-1]["id"]
        clicks = [{"query": 0, "ids": [last] * 1000}] * 1000
        sent = {"request_id": told["request_id"], "clicks": clicks}
        answers: list[httpx.Response] = []
        path = f"{TENANTS}/million/feedback"
        sending = Thread(target=lambda: answers.append(client.post(path, json=sent)))
        sending.start()
        slowest = 0.0
        with server.client() as other:
            while sending.is_alive():
                begun = time.perf_counter()
                assert other.get("/healthz").status_code == 200
                slowest = max(slowest, time.perf_counter() - begun)
        few = {"request_id": told["request_id"], "clicks": clicks[:2]}
        refused = client.post(path, json=few)
    assert answers[0].status_code == 413 and slowest < 1
    assert refused.status_code == 422 and "at most 1,000 clicks" in refused.json()["detail"]


def test_queries_times_hits_and_excluded_ids_are_limited_in_all(server):
    with server.client() as client:
        body = {"queries": [query(1)] * 128, "k": 1000}
        hits = client.post(SEARCH, json=body)
        exclude = client.post(SEARCH, json={"query": query(1), "exclude": [[5] * 10_001]})
    assert hits.status_code == 422 and "more than 20,000 hits" in hits.json()["detail"]
    assert exclude.status_code == 422 and "at most 10,000 ids" in exclude.json()["detail"]
