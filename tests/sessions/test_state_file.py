"""States on disk: a stream goes on exactly, and a file that is not right is refused."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import queryshift.support.tensor_files
from miniature import Toy, items, memory_of, same
from queryshift import EATA, METHODS, REST, SAR, Decoupled, Gallery, Guard, Refined, Session, Tent
from queryshift.errors import BadFile, BadInput
from queryshift.methods import Method
from queryshift.methods.eata import fisher_of
from queryshift.methods.losses import entropy
from queryshift.sessions.describe import table
from queryshift.support.tensor_files import tensor_text
from tampering import rewritten

STREAMS = {name: METHODS[name]() for name in METHODS}
STREAMS |= {
    "rest, switched": REST(decouple=True, mining=False, weight_on="lr", temperature=0.03),
    "tent, decoupled": Decoupled(Tent(), neighbours=5),
    "tent, refined, decoupled": Decoupled(Refined(Tent()), weight_on="lr"),
    "sar, refined": Refined(SAR(filter="log")),
}


@dataclass(frozen=True)
class Seen:
    """What `Mine` remembers."""

    mean: torch.Tensor | None = None
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Mine(Method):
    """A user's own method, with memory of its own."""

    weight: float = 0.5

    def start(self, gallery, device) -> Seen:
        return Seen()

    def observe(self, seen, memory, step) -> Seen:
        mean = seen.vectors.detach().mean(dim=0)
        if memory.mean is not None:
            mean = torch.lerp(memory.mean, mean, 0.5)
        return Seen(mean, (*memory.counts, len(seen)))

    def loss(self, seen, memory: Seen) -> Any:
        pulled = (seen.vectors @ memory.mean).mean()
        return self.weight * entropy(seen.scores / self.tau).mean() + pulled


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "session.state"


def goes_on_exactly(session, batches, path, method=None) -> None:
    """Save in the middle of a stream; the rest must be the same with and without a reload."""
    for batch in batches[:3]:
        session.answer(batch)
    session.save(path)
    again = Session.load(path, session.encoder, session.gallery, method)
    assert same((again.state, again.history), (session.state, session.history))
    assert again.settings == session.settings
    assert again.method == session.method
    assert table(again) == table(session)
    for batch in batches[3:]:
        assert same(again.answer(batch).top(9), session.answer(batch).top(9))
    assert same((again.state, again.history), (session.state, session.history))


class TestGoingOn:
    @pytest.mark.parametrize("name", STREAMS)
    def test_every_method(self, name, encoder, gallery, batches, path):
        goes_on_exactly(Session(encoder, gallery, STREAMS[name], lr=0.01), batches, path)

    def test_every_setting(self, encoder, gallery, batches, path):
        settings = {
            "steps": 2,
            "score_from": "after",
            "chunk": 5,
            "guard": Guard(spread=0.3),
            "mode": "shadow",
            "watch_angle": True,
            "seed": 7,
        }
        goes_on_exactly(Session(encoder, gallery, METHODS["tsa"](), **settings), batches, path)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
    def test_encoders_of_other_precision(self, dtype, gallery, batches, path):
        session = Session(Toy(dtype=dtype), gallery, REST(decouple=True), lr=0.01)
        goes_on_exactly(session, batches, path)

    def test_importances_of_parameters(self, encoder, gallery, clean, batches, path):
        method = EATA(fisher=fisher_of(encoder, gallery, clean), redundancy=0.9)
        session = Session(encoder, gallery, method, lr=0.01)
        session.save(path)
        found = Session.load(path, encoder, gallery).method.fisher
        assert same(dict(found), dict(method.fisher))
        goes_on_exactly(session, batches, path)

    @pytest.mark.parametrize("wrap", [lambda method: method, Decoupled], ids=["plain", "wrapped"])
    def test_a_method_of_ones_own_is_passed(self, wrap, encoder, gallery, batches, path):
        method = wrap(Mine(weight=0.7))
        session = Session(encoder, gallery, method, lr=0.03, guard=None)
        goes_on_exactly(session, batches, path, method=method)
        with pytest.raises(BadFile, match=r"a method of your own .*pass it as `method`"):
            Session.load(path, encoder, gallery)
        with pytest.raises(BadFile, match="got Tent: pass one like it"):
            Session.load(path, encoder, gallery, method=Tent())

    @pytest.mark.parametrize(
        ("method", "lr", "origin"),
        [
            (REST(), None, "the encoder"),
            (Decoupled(Tent()), None, "TCR's code"),
            (REST(lr=0.2), None, "the user"),
            (Decoupled(Refined(Tent(lr=0.2))), None, "the user"),
            (REST(), 0.1, "the user"),
        ],
    )
    def test_where_the_rate_came_from(self, method, lr, origin, gallery, path):
        toy = Toy()
        toy.recommended = {"rest": {"lr": 0.5}}
        session = Session(toy, gallery, method, lr=lr)
        session.save(path)
        told = table(session)
        toy.recommended = {"rest": {"lr": 0.1, "temperature": 0.1}, "tent": {"lr": 0.1}}
        again = Session.load(path, toy, gallery)
        assert again.origins["lr"] == origin
        assert table(again) == table(again.fork()) == told

    def test_where_the_settings_of_a_method_of_ones_own_came_from(self, encoder, gallery, path):
        Session(encoder, gallery, Mine()).save(path)
        again = Session.load(path, encoder, gallery, method=Mine(lr=0.7, temperature=0.3))
        assert again.origins == {"lr": "TCR's code", "temperature": "the user"}

    def test_a_file_that_does_not_say_where_its_settings_came_from(self, encoder, gallery, path):
        Session(encoder, gallery, Decoupled(Tent())).save(path)
        rewritten(path, "session", lambda about, tensors: about.pop("origins"))
        again = Session.load(path, encoder, gallery)
        assert set(again.origins.values()) == {"the saved file"}
        again.describe()

    @pytest.mark.parametrize("name", STREAMS)
    @pytest.mark.parametrize("size", [60, 57], ids=["as many", "fewer"])
    def test_over_another_gallery(self, name, size, encoder, gallery, batches, path):
        """As if the session's gallery had been replaced."""
        session = Session(encoder, gallery, STREAMS[name], lr=0.01)
        for batch in batches[:2]:
            session.answer(batch)
        session.save(path)
        other = Gallery.build(encoder, items(size, seed=8))
        again, session.gallery = Session.load(path, encoder, other), other
        assert same(again.answer(batches[2]).top(5), session.answer(batches[2]).top(5))
        assert same(again.state, session.state)

    def test_a_file_of_before_galleries_were_told_apart(self, encoder, gallery, batches, path):
        session = Session(encoder, gallery, EATA(redundancy=0.9), lr=0.01)
        session.answer(batches[0])
        session.save(path)
        rewritten(path, "session", lambda about, tensors: about.pop("gallery"))
        assert same(Session.load(path, encoder, gallery).state, session.state)

    def test_a_session_that_has_seen_nothing(self, encoder, gallery, path):
        Session(encoder, gallery, REST()).save(path)
        assert Session.load(path, encoder, gallery).history == []

    def test_what_cannot_be_saved_says_so_and_leaves_the_old_file(self, encoder, gallery, path):
        class Holding(Tent):
            def start(self, gallery, device):
                return {"things": {1, 2}}

        Session(encoder, gallery, Tent()).save(path)
        before = path.read_bytes()
        with pytest.raises(BadInput, match=r"cannot save memory\.things, a set: keep tensors"):
            Session(encoder, gallery, Holding()).save(path)
        assert path.read_bytes() == before


class TestWriting:
    def test_a_failing_write_leaves_the_old_file_and_nothing_else(
        self, encoder, gallery, batches, path, monkeypatch
    ):
        session = Session(encoder, gallery, REST())
        session.save(path)
        before = path.read_bytes()
        session.answer(batches[0])

        def full_disk(tensors, name, metadata):
            Path(name).write_bytes(b"half")
            raise OSError("no space left on device")

        monkeypatch.setattr(queryshift.support.tensor_files, "save_file", full_disk)
        with pytest.raises(BadFile, match=r'session\.state" could not .*no space left.*make room'):
            session.save(path)
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]

    def test_a_file_can_be_written_over_while_a_session_made_from_it_goes_on(
        self, encoder, gallery, batches, path
    ):
        session = Session(encoder, gallery, REST(), lr=0.01)
        session.answer(batches[0])
        session.save(path)
        again = Session.load(path, encoder, gallery)
        before = again.state.adapted.values.clone()
        again.answer(batches[1])
        again.save(path)
        assert torch.equal(session.state.adapted.values, before)

    def test_folders_are_made(self, encoder, gallery, tmp_path):
        Session(encoder, gallery, Tent()).save(tmp_path / "a" / "b" / "state")
        assert (tmp_path / "a" / "b" / "state").is_file()

    def test_the_file_holds_tensors_and_text_only(self, encoder, gallery, batches, path):
        session = Session(encoder, gallery, Decoupled(Tent()))
        session.answer(batches[0])
        session.save(path)
        with safe_open(path, framework="pt") as file:
            assert file.metadata().keys() == {"queryshift", "checksum"}
        about = json.loads(tensor_text(load_file(path)["about"]))
        assert about["method"]["name"] == "decoupled"
        assert about["method"]["inner"]["name"] == "tent"


class TestRefusing:
    @pytest.fixture
    def saved(self, encoder, gallery, batches, path) -> Path:
        session = Session(encoder, gallery, REST())
        session.answer(batches[0])
        session.save(path)
        return path

    def test_a_file_that_is_not_there(self, encoder, gallery, path):
        with pytest.raises(BadFile, match="there is no file"):
            Session.load(path, encoder, gallery)

    @pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.99])
    def test_a_file_cut_short(self, kept, encoder, gallery, saved):
        whole = saved.read_bytes()
        saved.write_bytes(whole[: int(kept * len(whole))])
        with pytest.raises(BadFile, match="damaged or cut short"):
            Session.load(saved, encoder, gallery)

    def test_a_file_of_another_program_or_kind(self, encoder, gallery, path):
        path.write_bytes(b"not a tensor file at all, but longer than a header's length")
        with pytest.raises(BadFile, match="damaged or cut short"):
            Session.load(path, encoder, gallery)
        save_file({"a": torch.ones(1)}, path)
        with pytest.raises(BadFile, match="of another program, expected a queryshift session"):
            Session.load(path, encoder, gallery)
        gallery.save(path)
        with pytest.raises(BadFile, match="a queryshift gallery file, expected"):
            Session.load(path, encoder, gallery)

    def test_a_state_of_another_model(self, gallery, saved):
        with pytest.raises(BadFile, match=r"saved with another model.*load it with that model"):
            Session.load(saved, Toy(seed=1), gallery)

    @pytest.mark.parametrize(
        "change",
        [
            lambda about, tensors: about.pop("state"),
            lambda about, tensors: about["state"].pop("adapted"),
            lambda about, tensors: about.pop("method"),
            lambda about, tensors: about["method"].update(name="os.system"),
            lambda about, tensors: about["method"]["fields"]["mapping"].update(unheard_of=1),
            lambda about, tensors: about["settings"].update(steps=-1),
            lambda about, tensors: about["history"].update(rows=3),
            lambda about, tensors: about["history"].pop("texts"),
            lambda about, tensors: tensors.pop("history.gap"),
            lambda about, tensors: about["origins"].popitem(),
            lambda about, tensors: about["shapes"].popitem(),
            lambda about, tensors: tensors.pop("adapted.values"),
            lambda about, tensors: tensors.update({"adapted.first": torch.ones(3)}),
        ],
    )
    def test_a_file_with_parts_that_do_not_fit(self, change, encoder, gallery, saved):
        rewritten(saved, "session", change)
        with pytest.raises(BadFile, match="lacks a part of a session"):
            Session.load(saved, encoder, gallery)

    def test_no_session_is_touched(self, encoder, gallery, batches, saved):
        session = Session(encoder, gallery, REST())
        session.answer(batches[0])
        before = memory_of(session)
        saved.write_bytes(b"")
        with pytest.raises(BadFile):
            Session.load(saved, encoder, gallery)
        assert same(memory_of(session), before)
