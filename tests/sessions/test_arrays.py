"""Arrays as galleries, a single vector as a query, and a session's named settings."""

import inspect
from dataclasses import MISSING, fields

import numpy as np
import pytest
import torch

import queryshift as qs
from queryshift.errors import BadInput, GalleryMismatch, UnknownName
from queryshift.sessions.session_settings import Settings

VECTORS = np.random.default_rng(0).normal(size=(50, 8))
KINDS = {
    "float64": VECTORS,
    "float32": VECTORS.astype(np.float32),
    "tensor": torch.from_numpy(VECTORS),
    "several": np.stack([VECTORS, -VECTORS], axis=1),
}


class TestAGalleryOfAnArray:
    @pytest.mark.parametrize("kind", KINDS)
    def test_is_numbered(self, kind):
        session = qs.Session(qs.Vectors(8), KINDS[kind])
        assert session.gallery.ids == list(range(50))
        assert session.answer(VECTORS[:3], adapt=False).source.top(1).ids == [[0], [1], [2]]

    def test_may_take_the_place_of_another(self, tmp_path):
        session = qs.Session(qs.Vectors(8), VECTORS)
        session.gallery = VECTORS[:20]
        assert len(session.gallery) == 20
        session.save(tmp_path / "state")
        assert len(qs.Session.load(tmp_path / "state", qs.Vectors(8), VECTORS).gallery) == 50

    def test_serves_an_encoder_too(self, encoder, gallery, batches):
        session = qs.Session(encoder, gallery.vectors[:, 0])
        assert len(session.answer(batches[0]).top(2).ids[0]) == 2

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (VECTORS[0], r"shape \(8,\)"),
            (VECTORS.astype(int), "floating-point"),
            (["a red square"], "got a list as gallery, expected an array or a tensor"),
            (qs.Gallery, "got a type as gallery"),
        ],
    )
    def test_mistakes_are_explained(self, given, said):
        with pytest.raises(BadInput, match=said):
            qs.Session(qs.Vectors(8), given)

    def test_of_another_dimension_is_refused(self):
        with pytest.raises(GalleryMismatch, match="gives vectors of 9 dimensions"):
            qs.Session(qs.Vectors(9), VECTORS)

    def test_numbers_are_the_ids_where_none_are_given(self):
        assert qs.Gallery.from_vectors(None, VECTORS).ids == list(range(50))


class TestASingleVector:
    @pytest.mark.parametrize("given", [VECTORS[7], torch.from_numpy(VECTORS[7]), list(VECTORS[7])])
    def test_is_a_batch_of_one(self, given):
        session = qs.Session(qs.Vectors(8), VECTORS)
        answer = session.answer(given)
        assert answer.top(1).ids == session.answer(VECTORS[7:8]).top(1).ids == [[7]]

    def test_has_its_exclusions(self):
        session = qs.Session(qs.Vectors(8), VECTORS)
        assert session.answer(VECTORS[7], exclude=[[7]]).top(1).ids != [[7]]

    def test_of_another_dimension_is_told_so(self):
        with pytest.raises(BadInput, match=r"shape \(3,\), expected 8 numbers"):
            qs.Session(qs.Vectors(8), VECTORS).answer([1.0, 2.0, 3.0])

    def test_a_batch_of_objects_is_a_batch(self):
        rows = np.empty(2, dtype=object)
        rows[:] = [list(VECTORS[0]), list(VECTORS[1])]
        assert len(qs.Session(qs.Vectors(8), VECTORS).answer(rows).top(1).ids) == 2


class TestSettings:
    def test_are_named_with_their_defaults(self):
        named = inspect.signature(qs.Session).parameters
        for field in fields(Settings):
            assert field.default is not MISSING
            left_open = field.name in ("hubs", "score_from")
            assert named[field.name].default == ("default" if left_open else field.default)

    def test_left_open_they_are_those_of_the_method(self, encoder, gallery):
        one = qs.Session(encoder, gallery, qs.REST(), hubs="default", score_from="default")
        assert one.settings == Settings()
        assert qs.Session(encoder, gallery).settings == Settings(hubs=qs.Hubs(), score_from="after")

    def test_a_session_may_be_called_default(self, encoder, gallery):
        assert qs.Session(encoder, gallery, name="default").settings.name == "default"

    def test_initials_are_suggested(self, encoder, gallery):
        with pytest.raises(UnknownName, match='"learning_rate"; did you mean "lr"'):
            qs.Session(encoder, gallery, learning_rate=0.1)


def test_a_reset_session_is_as_new():
    rng = np.random.default_rng(1)
    queries = VECTORS[:32] + rng.normal(size=(32, 8)) + 1
    session, new = (qs.Session(qs.Vectors(8), VECTORS) for _ in range(2))
    session.answer(queries + rng.normal(size=(32, 8)))
    session.reset()
    answer, fresh = session.answer(queries), new.answer(queries)
    assert torch.equal(answer.top(50).scores, fresh.top(50).scores)
    bare = qs.Session(qs.Vectors(8), VECTORS, qs.Frozen(), guard=None).answer(queries)
    assert answer.source.top(50).ids == bare.top(50).ids
