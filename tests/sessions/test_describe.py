"""Every setting in force, with where it comes from."""

from dataclasses import fields
from typing import get_args

import pytest

from miniature import Toy
from queryshift import (
    EATA,
    METHODS,
    REST,
    Decoupled,
    Guard,
    Hubs,
    InfoMax,
    ReferenceQueries,
    Refined,
    Session,
    Tent,
    Vectors,
)
from queryshift.methods import WRAPPERS
from queryshift.methods.eata import fisher_of
from queryshift.sessions.describe import LEARNING, table
from queryshift.sessions.session_settings import Settings
from queryshift.support.setting_fields import Origin

ORIGINS = (*get_args(Origin), "the user", "the encoder", "the default", "the first batch")


def rows(session) -> dict[str, tuple[str, str]]:
    """Name to value and origin."""
    found = {}
    for line in table(session).splitlines():
        name, rest = line.split(maxsplit=1)
        origin = next(one for one in ORIGINS if f"  {one}  " in f"  {rest}  ")
        found[name] = (rest.split(f"  {origin}")[0].strip(), origin)
    return found


def test_it_is_printed(encoder, gallery, capsys):
    session = Session(encoder, gallery, REST())
    assert session.describe() is None  # else a notebook would show it twice
    assert capsys.readouterr().out == table(session) + "\n"


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_of_every_method_has_an_origin_and_a_meaning(name, encoder, gallery):
    method = METHODS[name]()
    found = rows(Session(encoder, gallery, method))
    expected = {one.name for one in (*fields(method), *fields(Settings))}
    assert expected - set(found) == (set() if method.adapting else set(LEARNING))
    for one in fields(method):
        assert one.metadata["origin"] in ORIGINS
        assert one.metadata["about"]


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapped_methods_are_shown_too(name, encoder, gallery):
    found = rows(Session(encoder, gallery, WRAPPERS[name](Tent(temperature=0.3))))
    assert found["method"][0] == f"tent+{name}"
    assert found["tent.temperature"] == ("0.3", "the user")
    assert found["neighbours"] == ("10", "paper")


def test_a_guard_is_shown_line_by_line(encoder, gallery):
    guard = Guard(spread=3.0, reference=ReferenceQueries(mean=0.5, deviation=0.1, count=300))
    found = rows(Session(encoder, gallery, Tent(), guard=guard))
    assert found["guard"] == ("on", "the user")
    assert found["guard.spread"] == ("3.0", "the user")
    assert found["guard.collapse"] == ("0.5", "ours")
    assert found["guard.reference.count"] == ("300", "the user")
    assert found["guard.reference.limit"] == ("3.0", "ours")


def test_origins(gallery):
    toy = Toy()
    found = rows(Session(toy, gallery, REST(mining=False), steps=5))
    assert found["mining"] == ("False", "the user")
    assert found["entropy"] == ("True", "paper")
    assert found["queue_batches"] == ("10", "TCR's code")
    assert found["steps"] == ("5", "the user")
    assert found["chunk"] == ("None", "ours")
    assert found["lr"] == ("0.0003", "TCR's code")
    toy.recommended = {"rest": {"lr": 0.5}}
    found = rows(Session(toy, gallery, REST()))
    assert found["lr"] == ("0.5", "the encoder")
    assert found["temperature"] == ("0.02", "paper")
    assert rows(Session(toy, gallery, REST(), lr=0.1))["lr"] == ("0.1", "the user")
    assert rows(Session(toy, gallery, REST(lr=0.2)))["lr"] == ("0.2", "the user")


class TestTheDefaultSession:
    def test_nobody_gave_what_it_chose(self, encoder, gallery):
        found = rows(Session(encoder, gallery))
        assert found["method"] == ("infomax", "the default")
        assert found["temperature"] == ("None", "ours")
        assert {one.name: one.metadata["origin"] for one in fields(InfoMax)}["lr"] == "ours"
        assert found["hubs"] == ("on", "the default")
        assert found["score_from"] == ("after", "the default")

    def test_what_was_given_stays_the_users(self, encoder, gallery):
        found = rows(Session(encoder, gallery, hubs=Hubs(bank=7), score_from="before"))
        assert found["hubs"] == ("on", "the user") and found["hubs.bank"] == ("7", "the user")
        assert found["score_from"] == ("before", "the user")
        assert rows(Session(encoder, gallery, guard=None))["hubs"] == ("None", "the default")
        assert rows(Session(encoder, gallery, REST()))["hubs"] == ("None", "ours")

    def test_a_rate_of_the_stream_is_known_after_its_first_batch(self, encoder, gallery, batches):
        session = Session(encoder, gallery)
        assert rows(session)["lr"] == ("not yet known", "the first batch")
        session.answer(batches[0])
        if session.state.adapted.updates:
            assert float(rows(session)["lr"][0]) == pytest.approx(session.state.rate, rel=0.1)

    def test_it_is_known_in_forks_and_files(self, encoder, gallery, tmp_path):
        session = Session(encoder, gallery)
        session.save(tmp_path / "state")
        again = Session.load(tmp_path / "state", encoder, gallery)
        assert rows(again) == rows(session) == rows(session.fork())
        again = Session.load(tmp_path / "state", encoder, gallery, hubs=Hubs(bank=7))
        assert rows(again)["hubs"] == ("on", "the user")


def test_a_session_that_learns_nothing_has_no_rate(gallery):
    found = rows(Session(Vectors(gallery.dimension), gallery))
    assert found["method"] == ("frozen", "the default")
    assert not found.keys() & {*LEARNING, "adapts"}


def test_a_wrapped_methods_rate_is_advised_by_the_encoder(gallery):
    toy = Toy()
    toy.recommended = {"tent+decoupled": {"lr": 0.5}}
    assert rows(Session(toy, gallery, Decoupled(Tent())))["lr"] == ("0.5", "the encoder")


def test_what_a_wrapper_takes_from_its_method_keeps_its_origin(encoder, gallery):
    method = Decoupled(Tent(lr=0.2, temperature=0.3, weight_decay=0.5))
    found = rows(Session(encoder, gallery, method))
    for name in ("lr", "temperature", "weight_decay"):
        assert found[name] == found[f"tent.{name}"]
        assert found[name][1] == "the user"


def test_sizes(encoder, gallery):
    found = rows(Session(encoder, gallery, Tent()))
    assert found["gallery"][0] == "60 candidates"
    assert found["encoder"][0] == "Toy"
    assert found["adapts"][0].endswith("in 7 tensors")


@pytest.mark.parametrize(
    ("method", "given", "rate", "temperature"),
    [
        (Decoupled(Tent(), lr=0.5, temperature=0.7), None, 0.5, 0.7),
        (Decoupled(Tent(lr=0.4, temperature=0.6)), None, 0.4, 0.6),
        (Decoupled(Tent(lr=0.4, temperature=0.6), lr=0.5, temperature=0.7), None, 0.5, 0.7),
        (Decoupled(Refined(Tent(lr=0.4)), lr=0.5), None, 0.5, 0.03),
        (Decoupled(Refined(Tent(), lr=0.5, temperature=0.7)), None, 0.5, 0.7),
        (Decoupled(Tent(lr=0.4), lr=0.5), 0.6, 0.6, 0.03),
        (Decoupled(Tent()), None, 0.3, 0.03),
        (Refined(Tent()), None, 0.2, 0.02),
    ],
    ids=str,
)
def test_the_outermost_word_counts(method, given, rate, temperature, gallery):
    """The session's rate, the wrapper's, the method's, then what the encoder recommends."""
    toy = Toy()
    toy.recommended = {
        "tent": {"lr": 0.2, "temperature": 0.02},
        "tent+decoupled": {"lr": 0.3, "temperature": 0.03},
        "tent+refined+decoupled": {"lr": 0.3, "temperature": 0.03},
    }
    found = Session(toy, gallery, method, lr=given).method
    while found is not None:
        assert (found.rate, found.tau) == (rate, temperature)
        found = getattr(found, "method", None)


def test_importances_of_parameters_are_not_printed(encoder, gallery, clean):
    importances = fisher_of(encoder, gallery, clean[:8])
    for fisher, shown in ((None, "None"), (importances, "given")):
        assert rows(Session(encoder, gallery, EATA(fisher=fisher)))["fisher"][0] == shown


def test_columns_begin_at_the_same_place_and_a_meaning_is_told_once(encoder, gallery):
    lines = table(Session(encoder, gallery, Tent(), name="a session with a long name")).splitlines()
    about = [one.metadata["about"] for one in fields(Settings)]
    places = {line.index(text) for text in about for line in lines if text in line}
    assert len(places) == 1
    assert [sum(line.count(text) for line in lines) for text in about] == [1] * len(about)
