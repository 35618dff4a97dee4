"""Session files, format 2: old ones are migrated, edited ones never fail later, settings change."""

import json
import time
import warnings
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_history import long_history

from miniature import DIMENSION, same
from queryshift import (
    EATA,
    METHODS,
    REST,
    SAR,
    Decoupled,
    Gallery,
    Guard,
    Hubs,
    InfoMax,
    ReferenceQueries,
    Refined,
    Session,
    Tent,
)
from queryshift.errors import BadFile, BadInput, Error
from queryshift.methods.infomax import Learnt
from queryshift.sessions.batch_stats import BatchStats
from queryshift.sessions.state_file import packed, read_state, unpacked, write_state
from queryshift.support.tensor_files import read, write
from tampering import loads_otherwise, rewritten

OLD = Path(__file__).parents[1] / "data" / "format_1"
EARLIER = OLD.parent / "format_2"
ANSWERS = json.loads((OLD / "answers.json").read_text())


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "session.state"


@pytest.fixture
def session(encoder, gallery, batches) -> Session:
    started = Session(encoder, gallery, REST(), lr=0.01)
    for batch in batches[:2]:
        started.answer(batch)
    return started


class TestMigration:
    @pytest.mark.parametrize("name", ANSWERS)
    def test_an_old_session_goes_on_as_it_did(self, name, encoder, gallery, batches):
        """Without a guard: with one it goes on under today's policy."""
        told, stored = ANSWERS[name], load_file(OLD / f"{name}.session")
        session = Session.load(OLD / f"{name}.session", encoder, gallery, guard=None)
        assert torch.equal(session.state.adapted.values, stored["adapted.values"])
        assert [one.batch for one in session.history] == [1, 2, 3]
        latest = session.stats()
        assert [latest.spread, latest.gap] == told["stats"]
        assert [session.answer(batch).top(5).ids for batch in batches[3:]] == told["ids"]
        params = session.state.adapted.values[::16]
        assert torch.allclose(params, torch.tensor(told["params"]), atol=1e-5)

    def test_its_settings_are_kept(self, encoder, gallery):
        rest = Session.load(OLD / "rest.session", encoder, gallery)
        assert rest.method == REST(decouple=True).resolved(encoder, 0.01)
        assert rest.settings.guard.reference.count == 40
        assert rest.settings.watch_angle
        shadow = Session.load(OLD / "tent-decoupled.session", encoder, gallery)
        assert (shadow.settings.mode, shadow.settings.seed) == ("shadow", 7)
        assert shadow.method.name == "tent+refined+decoupled"

    def test_a_limit_that_guards_have_no_longer_is_passed_over(self, session, path):
        session.save(path)
        rewritten(path, "session", lambda about, _: about["settings"]["guard"].update(drift=25.0))
        again = Session.load(path, session.encoder, session.gallery)
        assert again.settings == session.settings and same(again.state, session.state)

    def test_another_limit_that_guards_do_not_have_is_refused(self, session, path):
        session.save(path)
        rewritten(path, "session", lambda about, _: about["settings"]["guard"].update(drft=25.0))
        with pytest.raises(BadFile, match=r"lacks a part of a session .*drft"):
            Session.load(path, session.encoder, session.gallery)

    def test_saved_again_it_is_of_the_present_format(self, encoder, gallery, path):
        session = Session.load(OLD / "eata.session", encoder, gallery)
        session.save(path)
        again = Session.load(path, encoder, gallery)
        assert same((again.state, again.history), (session.state, session.history))
        stored = read_state(path, encoder, None, None)
        assert stored.about["format"] == 2


class TestFilesOfAnEarlierPolicy:
    """Format 2, with what that policy remembered: three batches, a bank of 36, nine updates."""

    @pytest.mark.parametrize("name", ["default", "refined-infomax"])
    def test_go_on_under_this_one(self, name, encoder, gallery, batches, path):
        stored = load_file(EARLIER / f"{name}.session")
        session = Session.load(EARLIER / f"{name}.session", encoder, gallery)
        assert torch.equal(session.state.adapted.values, stored["adapted.values"])
        assert torch.equal(session.state.hubs.vectors, stored["stages.hubs.vectors"])
        assert session.state.memory == Learnt(3) and session.state.adapted.updates == 9
        assert same(session.state.chances, session.adaptation.fresh(gallery).chances)
        session.restore(replace(session.state, chances=torch.ones(64)))  # in full doubt
        session.answer(batches[3])
        assert session.state.memory == Learnt(4) and session.state.adapted.updates == 12
        assert len(session.state.hubs) > 36
        session.save(path)
        again = Session.load(path, encoder, gallery)
        assert same((again.state, again.history), (session.state, session.history))
        expected = session.answer(batches[4]).top(5)
        assert torch.equal(again.answer(batches[4]).top(5).positions, expected.positions)

    def test_keep_what_the_user_set_and_take_today_s_defaults(self, encoder, gallery):
        default, refined = (
            Session.load(EARLIER / f"{name}.session", encoder, gallery)
            for name in ("default", "refined-infomax")
        )
        assert default.method == InfoMax(lr=0.003) and default.adaptation.finds_rate
        assert default.settings.guard == Guard() and default.settings.hubs == Hubs(depth=1000)
        assert refined.method.rate == pytest.approx(0.03) and not refined.adaptation.finds_rate
        assert refined.settings.guard == Guard()


class TestFlippedBits:
    @pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.slow)])
    def test_none_gives_another_session(self, count, session, path):
        session.save(path)

        def load(path):
            again = Session.load(path, session.encoder, session.gallery)
            return again.state, again.history, again.settings, again.method

        assert loads_otherwise(path, count, seed=count, load=load, same=same) == 0


def numbers(value, place=()):
    """Where numbers stand in a JSON value."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for name, inner in pairs:
            yield from numbers(inner, (*place, name))
    elif isinstance(value, int | float):
        yield place


def put(value, place, new) -> None:
    for name in place[:-1]:
        value = value[name]
    value[place[-1]] = new


WRONG = (-1, 0, 3, 2**64, 10**400, 0.5, True, None, "3", [])
CHANGES = {
    "longer": lambda value: torch.cat((value, value)),
    "shorter": lambda value: value[:-1],
    "column": lambda value: value.reshape(-1, 1),
    "whole": lambda value: value.long(),
    "wide": lambda value: value.double(),
    "not finite": lambda value: value * float("nan"),
}


class TestEdited:
    """A checksum that is right says nothing about who made the file."""

    @pytest.fixture
    def harmless(self, encoder, gallery, batches, path):
        """Whether a file with these parts loads; if it does, it must answer and be saved."""

        def harmless(tensors, about) -> bool:
            write(path, "session", tensors, about)
            try:
                session = Session.load(path, encoder, gallery)
            except BadFile:
                return False
            assert len(session.answer(batches[2]).top(3).ids) == 12
            write_state(path, session.snapshot())
            return True

        return harmless

    @pytest.fixture(params=[InfoMax(), REST(), EATA(), Refined(SAR())], ids=lambda one: one.name)
    def parts(self, request, encoder, gallery, batches, path):
        session = Session(encoder, gallery, request.param, lr=0.01)
        for batch in batches[:2]:
            session.answer(batch)
        session.save(path)
        return read(path, "session", mapped=False)

    def test_counts_of_a_state_are_refused_or_harmless(self, parts, harmless):
        tensors, about = parts
        places = [place for place in numbers(about) if place[0] in ("state", "shapes", "history")]
        assert len(places) >= 10
        loaded = 0
        for place in places:
            for wrong in WRONG:
                edited = deepcopy(about)
                put(edited, place, wrong)
                loaded += harmless(tensors, edited)
        assert 0 < loaded < len(places) * len(WRONG) / 2  # some are counts as good as those

    def test_tensors_of_a_state_are_refused_or_harmless(self, parts, harmless):
        tensors, about = parts
        for name, value in tensors.items():
            others = {other: kept for other, kept in tensors.items() if other != name}
            assert name.startswith("history.") or not harmless(others, about)
            for change in CHANGES.values():
                harmless({**others, name: change(value)}, about)

    def test_settings_are_refused_or_harmless(self, session, harmless, path):
        session.save(path)
        tensors, about = read(path, "session", mapped=False)
        places = [place for place in numbers(about) if place[0] in ("settings", "lr", "method")]
        for place in places:
            for wrong in (-1, 0, None, "3", [], {}):
                edited = deepcopy(about)
                put(edited, place, wrong)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    harmless(tensors, edited)

    def test_a_gallery_of_another_dimension_is_refused(self, session, path):
        session.save(path)
        draw = torch.Generator().manual_seed(0)
        wider = Gallery.from_vectors(range(60), torch.randn(60, DIMENSION + 1, generator=draw))
        with pytest.raises(Error, match="dimensions"):
            Session.load(path, session.encoder, wider)

    def test_another_methods_memory_is_refused(self, session, path):
        session.save(path)
        rewritten(path, "session", lambda about, _: about["state"].update(memory=0.5))
        with pytest.raises(BadFile, match="no source-like pairs"):
            Session.load(path, session.encoder, session.gallery)


class TestChangingSettings:
    def test_those_that_may_change(self, session, path):
        session.save(path)
        guard = Guard(spread=0.5)
        asked = {"mode": "shadow", "guard": guard, "gather": 4, "steps": 1, "lr": 0.5}
        stored = read_state(path, session.encoder, None, None, asked)
        changed = replace(session.settings, mode="shadow", guard=guard, gather=4, steps=1)
        assert stored.settings == changed
        assert stored.method == replace(session.method, lr=0.5)
        assert stored.origins["lr"] == "the user"
        assert same(
            stored.state(session.adaptation.fresh(session.gallery), session.gallery),
            session.state,
        )

    def test_a_loaded_session_goes_on_with_them(self, session, encoder, gallery, batches, path):
        session.save(path)
        changed = {
            "mode": "shadow",
            "guard": Guard(spread=0.0),
            "gather": 24,
            "steps": 1,
            "lr": 0.5,
        }
        loaded = Session.load(path, encoder, gallery, **changed)
        assert same(loaded.params, session.params) and loaded.method.rate == 0.5
        assert {name: getattr(loaded.settings, name) for name in list(changed)[:4]} == {
            name: changed[name] for name in list(changed)[:4]
        }
        before = loaded.state.adapted.updates
        loaded.answer(batches[0]), loaded.answer(batches[1])
        assert loaded.state.adapted.updates == before + 1  # one step, when 24 had gathered

    def test_a_wrapped_methods_rate(self, encoder, gallery, path):
        Session(encoder, gallery, Decoupled(Tent()), lr=0.01).save(path)
        method = read_state(path, encoder, None, None, {"lr": 0.5}).method
        assert method.rate == method.method.rate == 0.5

    def test_nothing_changes_unasked(self, session, path):
        session.save(path)
        stored = read_state(path, session.encoder, None, None)
        assert (stored.settings, stored.method) == (session.settings, session.method)

    def test_others_and_wrong_values_are_told(self, session, path):
        session.save(path)
        with pytest.raises(BadInput, match=r"got seed=3 for a saved session, expected one of mode"):
            read_state(path, session.encoder, None, None, {"seed": 3})
        with pytest.raises(BadInput, match="steps is 0"):
            read_state(path, session.encoder, None, None, {"steps": 0})


class TestHistory:
    def test_a_snapshot_without_history_is_small_and_loads(self, session, path):
        session.restore(session.state, long_history(2000))
        session.save(path)
        full = path.stat().st_size
        write_state(path, session.snapshot(history=False))
        assert path.stat().st_size < full / 5
        again = Session.load(path, session.encoder, session.gallery)
        assert again.history == []
        assert same(again.state, session.state)

    def test_a_snapshot_is_of_its_moment(self, session, batches, path):
        taken, state, history = session.snapshot(), session.state, list(session.history)
        session.answer(batches[3])
        write_state(path, taken)
        again = Session.load(path, session.encoder, session.gallery)
        assert same((again.state, again.history), (state, history))

    def test_a_full_history_costs_little(self, session, path):
        """Against the same as JSON, one object a batch, as it was kept before."""
        history = long_history(2**14)

        def seconds(work) -> float:
            started = time.process_time()
            work()
            return time.process_time() - started

        session.restore(session.state, history)
        columns = min(seconds(lambda: session.save(path)) for _ in range(3))
        objects = min(seconds(lambda: json.dumps(list(map(vars, history)))) for _ in range(3))
        assert columns < 4 * objects
        assert path.stat().st_size < len(json.dumps(list(map(vars, history)))) / 2
        assert Session.load(path, session.encoder, session.gallery).history == history


def test_memory_of_stages_is_kept_by_name():
    """As `packed` keeps any mapping: a dataclass takes its type from the fresh one."""
    bank = {"hubs": BatchStats(*range(9)), "bank": {"vectors": torch.ones(2, 3), "seen": 7}}
    tensors = {}
    stored = json.loads(json.dumps(packed(bank, "stages", tensors)))
    fresh = {"hubs": BatchStats(*[0] * 9), "bank": None}
    assert same(unpacked(stored, fresh, tensors), bank)
    assert list(tensors) == ["stages.bank.vectors"]


@pytest.mark.parametrize("name", METHODS)
def test_no_method_refuses_its_own_memory(name, encoder, gallery, batches, path):
    for method in (METHODS[name](), Refined(METHODS[name]())):
        session = Session(encoder, gallery, method, lr=0.01)
        session.answer(batches[0])
        session.save(path)
        assert same(Session.load(path, encoder, gallery).state, session.state)


def test_files_keep_the_keys_of_renamed_fields(encoder, gallery, batches, tmp_path):
    known = ReferenceQueries.of(encoder, gallery, batches[0], limit=1e9)
    session = Session(encoder, gallery, Tent(), lr=0.01, guard=Guard(reference=known))
    session.answer(batches[0])
    session.save(tmp_path / "state")
    tensors, about = read(tmp_path / "state", "session")
    assert about["settings"]["guard"]["ordinary"]["count"] == known.count
    assert about["state"]["ordinary_streak"] == 1 and "history.strangeness" in tensors
    loaded = Session.load(tmp_path / "state", encoder, gallery)
    assert loaded.settings.guard.reference == known and loaded.state.reference_streak == 1
    assert loaded.history == session.history
