"""Sessions under any input: refused in words and unchanged, or answered."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fuzzing import attempt, fuzzed, refused
from hostile_values import ANYTHING, TEXTS, VECTORS, mostly
from hypothesis import strategies as st
from small_sessions import GRADIENTS, encoder, gallery, session

from miniature import memory_of, same
from queryshift import METHODS, Gallery, Guard, Hubs, Session
from queryshift.sessions.session_settings import Settings

IDS = st.sampled_from(("a", "b", "j", 10, 11))
BATCHES = mostly(st.lists(mostly(VECTORS, ANYTHING), min_size=1, max_size=4), ANYTHING)
LEFT_OUT = st.none() | st.lists(
    mostly(st.none() | st.lists(mostly(IDS, ANYTHING), max_size=3), ANYTHING), max_size=4
)
SETTINGS: dict[str, Any] = {
    "steps": st.integers(1, 3),
    "score_from": st.sampled_from(("last_forward", "before", "after")),
    "gather": st.none() | st.integers(1, 4),
    "chunk": st.none() | st.integers(1, 4),
    "depth": st.integers(1, 20),
    "guard": st.none() | st.just(Guard()),
    "hubs": st.none() | st.just(Hubs()),
    "mode": st.sampled_from(("live", "shadow")),
    "watch_angle": st.booleans(),
    "seed": st.integers(0, 9),
    "history": st.integers(1, 9),
    "name": st.none() | TEXTS,
    "lr": st.none() | st.floats(1e-6, 1),
}
NAMES = ({field.name for field in fields(Settings)} | {"lr"}) - {"worker"}
ITEMS = TEXTS | st.binary(min_size=12, max_size=12).map(
    lambda filling: np.resize(np.frombuffer(filling, np.uint8), (5, 4, 3))
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={name: mostly(SETTINGS.get(name, st.booleans()), ANYTHING) for name in sorted(NAMES)},
)


def remembered(one: Session) -> tuple[Any, ...]:
    state, previous, history, gathered = memory_of(one)
    return state, previous, list(history), list(gathered), one.settings, one.gallery.version


def unchanged_by_refusals(one: Session, call: Any, *args: Any, **named: Any) -> Any:
    before = remembered(one)
    found = attempt(call, *args, **named)
    if refused(found):
        assert same(remembered(one), before)
    return found


@pytest.mark.parametrize("kind", ["text", "image"])
@fuzzed(batch=mostly(st.lists(mostly(ITEMS, ANYTHING), min_size=1, max_size=3), ANYTHING))
def test_items_of_the_bundled_models(kind, batch):
    unchanged_by_refusals(tangram_session(kind), tangram_session(kind).answer, batch, adapt=False)


_SESSIONS: dict[str, Session] = {}


def tangram_session(kind: str) -> Session:
    from queryshift import REST, load

    if kind not in _SESSIONS:
        model = load("tangram")
        candidates = Gallery.build(model["text"], ["a red square", "a blue star", "an arrow"])
        _SESSIONS[kind] = Session(model[kind], candidates, REST())
    return _SESSIONS[kind]


@pytest.mark.parametrize("method", GRADIENTS)
@fuzzed(
    share=0.5,
    batch=BATCHES,
    exclude=LEFT_OUT,
    adapt=mostly(st.booleans(), ANYTHING),
    words=st.fixed_dictionaries(
        {},
        optional={
            "on_bad": mostly(st.sampled_from(("raise", "skip")), ANYTHING),
            "missing": mostly(st.sampled_from(("raise", "ignore")), ANYTHING),
        },
    ),
    depth=mostly(st.integers(1, 12), ANYTHING),
)
def test_any_batch(method, batch, exclude, adapt, words, depth):
    one = session(method)
    found = unchanged_by_refusals(one, one.answer, batch, adapt, exclude, **words)
    if not refused(found):
        attempt(found.top, depth)
    assert one.answer(list(torch.eye(4))).top(1).ids


@fuzzed(share=0.5, method=st.sampled_from(sorted(METHODS)), options=OPTIONS, batch=BATCHES)
def test_any_settings(method, options, batch):
    one = attempt(Session, encoder(), gallery(), METHODS[method](), **options)
    if not refused(one):
        attempt(lambda: unchanged_by_refusals(one, one.answer, batch))
        attempt(one.answer, list(torch.eye(4)))


@fuzzed(parts=st.tuples(ANYTHING, ANYTHING, ANYTHING, ANYTHING), whole=st.integers(0, 3))
def test_any_parts(parts, whole):
    right = [encoder(), gallery(), METHODS["rest"](), None]
    right[whole] = parts[whole]
    attempt(Session, *right[:3], matcher=right[3])


STEPS = st.one_of(
    st.tuples(st.just("answer"), BATCHES),
    st.tuples(st.just("answer"), st.lists(VECTORS, min_size=1, max_size=3)),
    st.tuples(st.just("restore"), ANYTHING),
    st.tuples(st.just("gallery"), ANYTHING | st.just(gallery().remove(["a"]))),
    st.tuples(st.just("load"), OPTIONS),
    st.tuples(st.just("save"), st.none() | ANYTHING),
    *(
        st.tuples(st.just(name), st.none())
        for name in ("undo", "fork", "reset", "go_live", "go_shadow", "stats", "describe")
    ),
)


@fuzzed(
    share=0.5,
    method=st.sampled_from(GRADIENTS),
    gather=st.none() | st.integers(2, 3),
    steps=st.lists(STEPS, max_size=6),
)
def test_any_sequence_of_calls(method, gather, steps, tmp_path_factory):
    place = tmp_path_factory.getbasetemp() / "kept.session"
    one = session(method, gather=gather)
    one.save(place)
    for name, given in steps:
        unchanged_by_refusals(one, _taken, one, name, given, place)
    assert len(one.answer(list(torch.eye(4))).top(1).ids) == 4


def _taken(one: Session, name: str, given: Any, place: Path) -> Any:
    """One call of a session, by its name."""
    if name == "gallery":
        one.gallery = given
    elif name == "load":
        return Session.load(place, encoder(), gallery(), **given)
    elif name == "save":
        one.save(place if given is None or isinstance(given, str | bytes) else given)
    elif given is None:
        return getattr(one, name)()
    else:
        return getattr(one, name)(given)
