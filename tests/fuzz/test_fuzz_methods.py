"""Methods under any setting and any spec: refused in words, or ready to answer."""

from dataclasses import fields

import torch
from fuzzing import attempt, fuzzed, refused
from hostile_values import ANYTHING, LEAVES, NUMBERS, TEXTS, mostly
from hypothesis import strategies as st
from small_sessions import encoder, gallery

from queryshift import METHODS, Decoupled, Guard, Hubs, Refined, Session
from queryshift.methods.specs import Spec, canonical

NAMES = sorted(METHODS)
OF_METHOD = {name: [field.name for field in fields(METHODS[name])] for name in NAMES}
WORDS = st.sampled_from(
    (
        "none",
        "true",
        "False",
        "0",
        "1",
        "0.5",
        "1e-3",
        "10",
        "-1",
        "1e400",
        "nan",
        "9" * 400,
        "keep",
        "é",
        "",
        "1_0",
    )
)
PAIRS = st.builds(
    lambda name, value: f"{name}={value}",
    mostly(st.sampled_from(sorted({one for names in OF_METHOD.values() for one in names})), TEXTS),
    mostly(WORDS, TEXTS | NUMBERS.map(str)),
)
PARTS = st.builds(
    lambda name, pairs: f"{name}:{','.join(pairs)}" if pairs else name,
    mostly(st.sampled_from((*NAMES, "decoupled", "refined", "hubs")), TEXTS),
    mostly(st.just([]), st.lists(PAIRS, max_size=2)),
)


def answers(method) -> None:
    """A session of the method answers, or refuses in words."""
    session = attempt(Session, encoder(), gallery(), method, lr=0.01)
    if not refused(session):
        attempt(session.answer, list(torch.eye(4)))


@fuzzed(data=st.data(), name=st.sampled_from(NAMES), count=st.integers(1, 2))
def test_any_setting_of_any_method(data, name, count):
    keys = data.draw(st.lists(st.sampled_from(OF_METHOD[name]), min_size=1, max_size=count))
    given = {key: data.draw(NUMBERS | LEAVES) for key in keys}
    method = attempt(METHODS[name], **given)
    if not refused(method):
        answers(method)


@fuzzed(inside=ANYTHING, given=ANYTHING, key=st.sampled_from(("neighbours", "drift_temperature")))
def test_any_wrapping(inside, given, key):
    for wrapper in (Decoupled, Refined):
        attempt(wrapper, inside)
        wrapped = attempt(wrapper, METHODS["tent"](), **{key: given})
        if not refused(wrapped):
            answers(wrapped)


@fuzzed(
    share=0.5,
    key=st.sampled_from([field.name for field in fields(Guard)]),
    hub=st.sampled_from([field.name for field in fields(Hubs)]),
    given=NUMBERS | ANYTHING,
)
def test_any_guard_and_hubs(key, hub, given):
    guard, hubs = attempt(Guard, **{key: given}), attempt(Hubs, **{hub: given})
    for settings in ({"guard": guard}, {"hubs": hubs}):
        if not refused(*settings.values()):
            session = Session(encoder(), gallery(), METHODS["rest"](), lr=0.01, **settings)
            attempt(session.answer, list(torch.eye(4)))


@fuzzed(share=2, parts=st.lists(PARTS, min_size=1, max_size=3), text=TEXTS)
def test_any_spec(parts, text):
    attempt(lambda: Spec.read(text).make())
    spec = "+".join(parts)
    method, written = attempt(lambda: Spec.read(spec).make()), attempt(canonical, spec)
    if not refused(written):
        assert canonical(written) == written
        attempt(lambda: Spec.read(spec).hubs)
    if not refused(method):
        answers(method)
