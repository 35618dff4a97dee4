"""A tenant in memory beside its record in the store, where other processes change it too."""

from dataclasses import replace
from math import inf, nan

import pytest
import torch

from miniature import Toy, items
from queryshift import Gallery, Session, Tent
from queryshift.galleries.hits import Id
from queryshift.serving.answering.answers import Asked, answer_rows
from queryshift.serving.collection import Collection
from queryshift.serving.json_values import plain
from queryshift.serving.settings import CollectionSettings
from queryshift.serving.store.stored_tenant import EVENTS, Record, StoredTenant, stored_state
from queryshift.serving.tenant import Tenant
from queryshift.sessions.events import Event
from queryshift.sessions.feedback import ClickScores


@pytest.fixture(scope="module")
def collection():
    encoder = Toy()
    gallery = Gallery.build(encoder, items(40))
    made = (CollectionSettings(), encoder, encoder, gallery, Tent(lr=0.01), None, None, "after")
    return Collection("shop", *made)


@pytest.fixture
def tenant(collection):
    record = Record("one", "live", queries=10, batches=4, updates=3, drops=1, last_seen=100.0)
    stored = StoredTenant(7, 5, record, None, [{"batch": 4, "queries": 8}], "process")
    return Tenant(stored, collection.session(name="one"), collection)


def elsewhere(tenant, version: int, **counts) -> StoredTenant:
    """The tenant as another process left it."""
    record = replace(tenant.stored, clicks=ClickScores(tenant.stored.clicks.counts()), **counts)
    return StoredTenant(7, version, record, None, [{"batch": record.batches}], "other")


def learn(tenant) -> None:
    tenant.record.queries += 2
    tenant.record.clicks.add_click(1, [1, 2], [2, 1])
    tenant.add_row({"updated": 1, "queries": 2}, 0.25)


def test_a_learnt_batch_is_counted_and_has_its_row(tenant):
    tenant.record.drops += 2
    row = tenant.add_row({"updated": 1, "queries": 8}, 0.1234)
    assert row == {"batch": 5, "updated": 1, "queries": 8, "dropped": 2, "delay": 0.123}
    assert tenant.add_row({"updated": 0}, 0.0)["dropped"] == 0
    assert (tenant.record.batches, tenant.record.updates) == (6, 4)
    assert tenant.learnt_since_save == 2 and tenant.changed_at is not None
    change = tenant.unsaved("a", 100, told=False)
    assert (change.counts["batches"], change.counts["updates"], change.counts["drops"]) == (2, 1, 2)
    assert [one["batch"] for one in change.rows] == [5, 6] and change.mode is None


@pytest.mark.parametrize(("there", "expected"), [(50.0, 100.0), (300.0, 300.0)])
def test_who_asked_last_anywhere_asked_last(tenant, there, expected):
    tenant.follow(elsewhere(tenant, 5, last_seen=there))
    assert tenant.record.last_seen == expected


def test_what_others_count_is_taken_over_and_what_was_counted_here_added(tenant):
    learn(tenant)
    assert tenant.follow(elsewhere(tenant, 5, queries=13)) == 0
    assert (tenant.record.queries, tenant.record.batches) == (15, 5)
    assert sum(tenant.record.clicks.counts().values()) == 1
    assert len(tenant.unwritten) == 1 and tenant.learnt_since_save == 1


def test_what_was_learnt_on_a_version_before_is_dropped_and_counted_as_lost(tenant):
    learn(tenant)
    assert tenant.follow(elsewhere(tenant, 6, batches=9, updates=8, queries=30)) == 1
    record = tenant.record
    assert (record.queries, record.batches, record.updates, record.drops) == (32, 9, 8, 2)
    assert tenant.seen == 6 and tenant.learnt_since_save == 0 and not tenant.unwritten
    assert [row["batch"] for row in tenant.rows] == [9]
    assert sum(record.clicks.counts().values()) == 1  # a click is never lost


def test_an_event_belongs_to_the_batch_that_is_next_and_the_latest_are_kept():
    record = Record("one", "live", batches=3)
    for number in range(EVENTS + 3):
        record.add_event("guard", f"number {number}", 0.0)
    assert {one["batch"] for one in record.events} == {4} and len(record.events) == 32
    assert record.events[-1]["detail"] == f"number {EVENTS + 2}"
    assert record.new_events == record.events


def test_who_answers_after_the_first_update_is_the_adapted_model(collection):
    session, queries = collection.session(steps=1), items(40)[:4]

    def by() -> str:
        exclude: list[list[Id]] = [[]]
        asked = Asked(queries[:1], exclude, 3, session, source=False)
        return answer_rows(collection, [asked])[0][0].by

    assert by() == "source"
    session.answer(queries)
    assert session.state.adapted.updates == 1 and by() == "adapted"


def test_each_request_of_a_batch_has_as_many_hits_as_it_asked_for(collection):
    one, other = collection.session(), collection.session()
    queries = items(40)
    asked = [
        Asked(queries[:2], [[], []], 2, one, source=True),
        Asked(queries[2:3], [[]], 7, other, source=True),
        Asked(queries[3:4], [[]], 4, None, source=True),
    ]
    rows = answer_rows(collection, asked)
    assert [[len(answer.source) for answer in part] for part in rows] == [[2, 2], [7], [4]]
    assert [[len(answer.adapted or []) for answer in part] for part in rows] == [[2, 2], [7], [0]]


@pytest.mark.parametrize(
    ("mode", "answered", "told"),
    [
        ("live", None, "source"),  # it has learnt nothing
        ("live", "both", "both"),
        ("shadow", "both", "source"),
        ("frozen", "adapted", "source"),
    ],
)
def test_who_answers_a_tenant_is_told(tenant, mode, answered, told):
    tenant.record.mode, tenant.answered_by = mode, answered
    assert tenant.about(3)["report"]["answers_by"] == told
    assert tenant.about(3)["pending"] == 3


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.5, 0.5), (-1e300, -1e300), (nan, None), (inf, None), (-inf, None), (3, 3), ("a", "a")],
)
def test_numbers_are_told_as_json_has_them(value, told):
    assert plain(value) == told


def test_what_is_stored_is_not_sent_again_and_what_came_meanwhile_is_not_lost(tenant):
    learn(tenant)
    tenant.note(Event("guard", "collapse"))
    sent = tenant.unsaved("a", 100, told=True)
    assert (sent.counts["batches"], sent.counts["resets"], len(sent.events)) == (1, 1, 1)
    learn(tenant)
    tenant.note(Event("restart", "by itself"))
    tenant.committed(sent, 6)
    rest = tenant.unsaved("b", 100, told=False)
    assert rest.counts == {"queries": 2, "batches": 1, "updates": 1, "drops": 0, "resets": 0}
    assert [one["event"] for one in rest.events] == ["restart"]
    assert [row["batch"] for row in rest.rows] == [6] and sum(rest.clicks.values()) == 1
    assert rest.seen == 6 and rest.mode is None
    tenant.committed(rest, 7)
    last = tenant.unsaved("c", 100, told=False)
    assert not any(last.counts.values()) and not last.events and not last.rows and not last.clicks


@pytest.mark.parametrize(
    ("kind", "resets", "kept"),
    [
        ("guard", 1, True),
        ("not_finite", 1, True),
        ("ordinary", 0, True),
        ("restart", 0, True),
        ("dropped", 0, False),  # counted by the queue of groups
    ],
)
def test_an_event_is_kept_and_counts_as_a_reset_where_answers_went_wrong(
    tenant, kind, resets, kept
):
    tenant.note(Event(kind, "why", time=1.0))
    guard = tenant.about(0)["guard"]
    assert guard["resets"] == resets and list(tenant.news) == [kind] * kept
    assert [(one["event"], one["detail"]) for one in guard["events"]] == [(kind, "why")] * kept


def test_one_click_is_told(tenant):
    assert tenant.about(0)["clicks"] is None
    tenant.record.clicks.add_click(1, [1, 2], [2, 1])
    assert tenant.about(0)["clicks"]["clicks"] == 1


def test_what_is_written_of_a_session_is_what_it_learnt_without_its_history(tenant, collection):
    session, queries = tenant.session, items(40)
    session.answer(queries[:8])
    session.answer(queries[8:12])
    tenant.settle(session.state)
    content = stored_state(tenant.unsaved("a", 100, told=False).state).content
    again = Session.load(content, collection.encoder, collection.gallery)
    assert torch.equal(again.state.adapted.values, session.state.adapted.values)
    assert len(session.history) == 2 and len(again.history) == 0


def test_the_report_is_of_the_latest_batch_and_says_who_would_answer(tenant):
    queries = items(40)
    assert tenant.report()["latest"] is None and tenant.report()["answers_by"] == "source"
    for number in (8, 4):
        tenant.session.answer(queries[:number])
    report = tenant.report()
    assert report["latest"]["queries"] == 4 and report["answers_by"] == "adapted"


def test_nothing_is_counted_of_a_new_tenant():
    new = Record("one", "live")
    counted = (new.queries, new.batches, new.updates, new.drops, new.resets)
    assert counted == (0, 0, 0, 0, 0) and not (new.events or new.new_events or new.clicks.counts())
