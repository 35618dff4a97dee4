"""What happens to a session: events, log records, warnings and callbacks."""

import logging
import math
import time
import warnings

import pytest

from queryshift import (
    REST,
    SAR,
    Event,
    Frozen,
    Guard,
    GuardWarning,
    ReferenceQueries,
    Session,
    Tent,
)
from queryshift.errors import BadInput


def told(session, batch):
    """The events of one batch, with warnings as they come."""
    events = []
    session.on_event = events.append
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        session.answer(batch)
    return events, [w for w in warned if w.category is GuardWarning]


def test_a_guards_reset_is_an_event_a_log_record_and_a_warning(encoder, gallery, batches, caplog):
    session = Session(encoder, gallery, Tent(), lr=math.inf, name="shop-7")
    before = time.time()
    with caplog.at_level(logging.INFO, logger="queryshift"):
        (event,), (warning,) = told(session, batches[0])
    assert event.kind == "not_finite" and event.reason.startswith("not finite") and event.batch == 1
    assert event.session == "shop-7" and before <= event.time <= time.time()
    assert str(warning.message) == f"queryshift: {event.reason}" and warning.filename == __file__
    (record,) = caplog.records
    assert record.name == "queryshift" and record.levelno == logging.WARNING
    assert record.session == "shop-7" and "shop-7, batch 1: not finite" in record.getMessage()
    assert session.stats().restart == event.reason


def test_an_update_that_is_not_finite_is_an_event(encoder, gallery, batches):
    session = Session(encoder, gallery, Tent(), lr=math.inf)
    (event,), (warning,) = told(session, batches[0])
    assert event.kind == "not_finite" and event.reason.endswith("the session was reset")
    assert warning.filename == __file__ and session.state.adapted.updates == 0


def test_without_a_guard_only_the_update_is_dropped(encoder, gallery, batches):
    session = Session(encoder, gallery, Tent(), lr=math.inf, guard=None)
    (event,), (warning,) = told(session, batches[0])
    assert event.reason.endswith("the update was dropped") and event.reason in str(warning.message)
    assert session.state.resets == 0


@pytest.mark.parametrize("guard", [None, Guard(collapse=1.0, spread=0.0)])
def test_a_methods_own_restart_is_an_event_and_no_warning(encoder, gallery, batches, guard):
    session = Session(encoder, gallery, SAR(reset_below=99.0), lr=0.05, guard=guard, steps=2)
    events, warned = told(session, batches[0])
    reason = "sar reset the session by itself"
    assert [(one.kind, one.reason, one.batch) for one in events] == [("restart", reason, 1)]
    assert warned == [] and session.stats().restart == reason
    assert session.stats().resets == session.state.resets == 2  # a step each


def test_the_end_of_a_shift_is_an_event_and_no_warning(encoder, gallery, batches, clean):
    ordinary = ReferenceQueries.of(encoder, gallery, batches[1], patience=1, limit=50.0)
    session = Session(encoder, gallery, Tent(), lr=0.05, guard=Guard(reference=ordinary))
    learnt = Session(encoder, gallery, Tent(), lr=0.05)
    learnt.answer(batches[0])
    session.restore(learnt.state)
    events, warned = told(session, batches[1])
    assert [event.kind for event in events] == ["ordinary"] and warned == []
    assert events[0].reason.startswith("the shift is over")


def test_a_dropped_update_is_an_event(encoder, gallery, batches):
    session = Session(encoder, gallery, Tent(), lr=0.05, gather=12, worker=True)
    events = []
    session.on_event = events.append
    session._updater.worker = Busy()
    session.answer(batches[0])
    assert [event.kind for event in events] == ["dropped"] and session.dropped == 1


class Busy:
    """A worker that is always at work."""

    busy = True

    def check(self):
        pass


def test_every_batch_is_called_back_with_its_statistics(encoder, gallery, batches):
    stats = []
    session = Session(encoder, gallery, REST(), on_batch=stats.append)
    for batch in batches[:3]:
        session.answer(batch)
    session.answer(batches[3], adapt=False)
    assert stats == session.history and [s.batch for s in stats] == [1, 2, 3, 4]
    assert all(abs(s.time - time.time()) < 60 for s in stats)


def test_a_loaded_session_calls_back_as_it_is_told_to(encoder, gallery, batches, tmp_path):
    Session(encoder, gallery, SAR(reset_below=99.0), lr=0.05, steps=2).save(tmp_path / "state")
    stats, events = [], []
    given = {"on_batch": stats.append, "on_event": events.append}
    Session.load(tmp_path / "state", encoder, gallery, **given).answer(batches[0])
    assert len(stats) == 1 and [event.kind for event in events] == ["restart"]


def test_a_callback_that_fails_costs_no_answer(encoder, gallery, batches, caplog):
    session = Session(encoder, gallery, Frozen(), on_batch=lambda stats: 1 / 0)
    with caplog.at_level(logging.ERROR, logger="queryshift"):
        assert len(session.answer(batches[0]).top(1)) == 12
    assert "a callback of a session failed" in caplog.text and "ZeroDivisionError" in caplog.text


def test_the_step_itself_warns_of_nothing_and_changes_nothing(encoder, gallery, batches):
    """A pure function: the same result twice, and no session is needed."""
    from miniature import same
    from queryshift.sessions.step import advance
    from queryshift.sessions.updater import grouped, prepared_batch

    session = Session(encoder, gallery, Tent(), lr=math.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = [
            advance(
                session.adaptation,
                session.state,
                prepared_batch(session.adaptation, grouped(batches[0], None), gallery),
                True,
            )
            for _ in range(2)
        ]
    first, second = results
    assert same(
        (first.state, first.stats, first.events), (second.state, second.stats, second.events)
    )
    assert first.events == (Event("not_finite", first.events[0].reason),)
    assert session.state.batches == 0 and session.history == []


@pytest.mark.parametrize("setting", ["lr", "steps", "mode", "guard", "foo"])
def test_attributes_that_do_nothing_are_refused(encoder, gallery, setting):
    session = Session(encoder, gallery, REST())
    with pytest.raises(BadInput, match=rf"session\.{setting} = 3, which has no effect"):
        setattr(session, setting, 3)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("guard", True),
        ("not_finite", True),
        ("ordinary", False),
        ("restart", False),
        ("dropped", False),
    ],
)
def test_only_what_went_wrong_is_warned_of_in_the_callers_line(kind, wrong, recwarn):
    Event(kind, "it happened").warn()
    assert [(one.category, one.filename) for one in recwarn] == [(GuardWarning, __file__)] * wrong
