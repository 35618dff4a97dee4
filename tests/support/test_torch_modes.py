"""A service may run under no_grad, inference mode or autocast as a whole: nothing changes."""

import sys
from types import ModuleType

import pytest
import torch

import miniature
from miniature import memory_of, same
from queryshift import METHODS, REST, Frozen, Gallery, Session, Tent, answer_many
from queryshift.errors import CannotAdapt
from queryshift.support.torch_modes import retain_compiled_graphs

MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "default_device": lambda: torch.device("meta"),  # where nobody expects our tensors
}
every_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


class Toy(miniature.Toy):
    def prepare(self, items):
        return torch.stack(list(items)).to(self.last[1].weight.dtype)


def half() -> Toy:
    """Norm layers of a half-precision model are widened when a thread first sees it."""
    return Toy(dtype=torch.bfloat16)


@every_mode
@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_the_same_under_any_mode(mode, name, clean, batches, gallery):
    usual = Session(Toy(), gallery, METHODS[name](), lr=0.01)
    inside = Session(Toy(), gallery, METHODS[name](), lr=0.01)
    for batch in batches[:3]:
        expected = usual.answer(batch).top(5)
        with mode():
            assert same(inside.answer(batch).top(5), expected)
    assert same(memory_of(inside), memory_of(usual))


@every_mode
@pytest.mark.parametrize("make", [Toy, half])
@pytest.mark.parametrize("method", [REST(decouple=True), Tent()], ids=["rest", "tent"])
def test_whatever_is_made_under_a_mode_can_be_used_outside(
    mode, make, method, clean, batches, tmp_path
):
    encoder = make()
    with mode():
        gallery = Gallery.build(encoder, clean).remove([0])
        session = Session(encoder, gallery, method, lr=0.01, gather=len(batches[0]))
        session.answer(batches[0])
        session.save(tmp_path / "state")
        again = Session.load(tmp_path / "state", encoder, gallery)
        again.gallery = Gallery.from_vectors(gallery.ids, gallery.vectors.clone())
        new = Session(encoder, gallery, method, lr=0.01)
        new.reset()
    for one in (session, again, new):
        one.answer(batches[1])
        assert one.state.adapted.updates in (3, 6)


@every_mode
def test_many_sessions_are_answered_alike(mode, gallery, batches):
    encoder = Toy()
    sessions = [Session(encoder, gallery, method, lr=0.01) for method in (REST(), Tent())]
    for session in sessions:
        session.answer(batches[0])
    usual = [one.top(5) for one in answer_many(sessions, batches[:2])]
    with mode():
        assert same([one.top(5) for one in answer_many(sessions, batches[:2])], usual)


@every_mode
def test_a_gallery_is_built_and_searched_alike(mode, clean):
    encoder = Toy()
    gallery = Gallery.build(encoder, clean)
    queries = encoder.encode(clean)
    with mode():
        assert same(Gallery.build(encoder, clean).vectors, gallery.vectors)
        found = gallery.search(queries, 5)
    assert same(found.scores, gallery.search(queries, 5).scores)


def test_an_encoder_that_asks_for_half_precision_itself_gets_it(gallery, batches):
    class Cast(Toy):
        def forward(self, prepared):
            with torch.autocast("cpu", torch.bfloat16):
                return super().forward(prepared)

    vectors = [
        Session(kind(), gallery, Frozen()).answer(batches[0]).vectors for kind in (Cast, Toy)
    ]
    assert 1e-4 < (vectors[0] - vectors[1]).abs().max() < 0.1


def test_queries_made_under_inference_mode(gallery, batches):
    class AsItComes(Toy):
        def prepare(self, items):
            return items[0][None]

    with torch.inference_mode():
        query = batches[0][0].clone()
    session = Session(AsItComes(), gallery, Tent(), lr=0.01)
    session.answer([query])
    assert session.state.adapted.updates == 3


def test_vectors_with_a_graph_are_kept_without_it():
    vectors = torch.randn(3, 4, requires_grad=True)
    assert not Gallery.from_vectors("abc", vectors).vectors.requires_grad


def test_a_model_made_under_inference_mode_says_so(gallery, batches):
    with torch.inference_mode():
        encoder = Toy()
    with pytest.raises(CannotAdapt, match=r"made under torch\.inference_mode.*outside of it"):
        Session(encoder, gallery, REST())
    assert len(Session(encoder, gallery, Frozen()).answer(batches[0]).top(1)) == 12


def test_answers_go_on_while_another_thread_imports_the_compiler(monkeypatch):
    name = "torch._functorch.config"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))  # as far as that thread has come
    with retain_compiled_graphs():
        pass
