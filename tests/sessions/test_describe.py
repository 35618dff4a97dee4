"""Every setting in force, with where it comes from."""

from dataclasses import fields
from typing import get_args

import pytest

from miniature import Toy
from queryshift import METHODS, REST, Decoupled, Guard, Ordinary, Refined, Session, Tent
from queryshift.methods import WRAPPERS
from queryshift.sessions.describe import table
from queryshift.sessions.settings import Settings
from queryshift.support.setting_fields import Origin

ORIGINS = (*get_args(Origin), "the user", "the encoder")


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
    session.describe()
    assert capsys.readouterr().out == table(session) + "\n"


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_of_every_method_has_an_origin_and_a_meaning(name, encoder, gallery):
    method = METHODS[name]()
    found = rows(Session(encoder, gallery, method))
    expected = {one.name for one in (*fields(method), *fields(Settings))}
    assert expected <= set(found)
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
    guard = Guard(spread=3.0, ordinary=Ordinary(mean=0.5, deviation=0.1, count=300))
    found = rows(Session(encoder, gallery, Tent(), guard=guard))
    assert found["guard"] == ("given", "the user")
    assert found["guard.spread"] == ("3.0", "the user")
    assert found["guard.ordinary.count"] == ("300", "the user")
    assert found["guard.ordinary.limit"] == ("3.0", "ours")


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
