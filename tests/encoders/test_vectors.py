"""Queries that come as vectors: everything that needs no gradient, without an encoder of ours."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from queryshift import (
    METHODS,
    Frozen,
    Gallery,
    Guard,
    Hubs,
    ReferenceQueries,
    Session,
    TCRUntrained,
    Vectors,
    answer_many,
)
from queryshift.errors import BadFile, BadInput, BadItem, CannotAdapt, GalleryMismatch

WIDTH = 6


def rows(count: int, seed: int, crowd: float = 0.0) -> torch.Tensor:
    """Vectors of any length, drawn towards one direction."""
    vectors = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))
    vectors[:, 0] += crowd
    return vectors


@pytest.fixture(scope="module")
def gallery():
    return Gallery.from_vectors(range(80), rows(80, 0))


@pytest.mark.parametrize("form", [list, Tensor.numpy, Tensor.tolist, Tensor.half, Tensor.to_sparse])
def test_vectors_of_any_kind_and_length_are_answered(form, gallery):
    asked = rows(9, 1)
    answer = Session(Vectors(WIDTH), gallery, Frozen()).answer(form(asked))
    expected = gallery.search(normalize(asked, dim=1), 1).positions
    assert torch.equal(answer.top(1).positions, expected)
    assert torch.allclose(answer.vectors.norm(dim=1), torch.ones(9))


def test_vectors_too_large_and_too_small_for_float32(gallery):
    for factor in (1e-200, 1e200):
        vectors = Vectors(WIDTH).encode([np.full(WIDTH, factor)])
        assert torch.allclose(vectors, torch.full((1, WIDTH), WIDTH**-0.5))


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (torch.zeros(WIDTH), "zero vector"),
        (torch.full((WIDTH,), torch.nan), "NaN or infinite"),
        (torch.ones(WIDTH + 1), r"shape \(7,\), expected 6 numbers"),
        (torch.ones(WIDTH, dtype=torch.complex64), "a Tensor, expected 6 numbers"),
        ("a caption", "a str, expected 6 numbers"),
        ([1.0, [2.0]], "a list, expected 6 numbers"),
        (None, "None, expected 6 numbers"),
    ],
)
def test_one_that_cannot_be_searched_with_is_named_and_can_be_skipped(item, said, gallery):
    session = Session(Vectors(WIDTH), gallery, Frozen(), hubs=Hubs())
    asked = [*rows(3, 1), item]
    with pytest.raises(BadItem, match=said) as caught:
        session.answer(asked)
    assert caught.value.index == 3
    assert session.state.batches == 0
    answer = session.answer(asked, on_bad="skip")
    assert [bad.index for bad in answer.skipped] == [3]
    assert len(session.state.hubs) == 3


@pytest.mark.parametrize("number", [np.array(3.0), torch.tensor(3.0), np.float32(3)])
def test_one_number_is_no_batch(number, gallery):
    with pytest.raises(BadInput, match="as a batch, expected a list of items"):
        Session(Vectors(WIDTH), gallery, Frozen()).answer(number)


@pytest.mark.parametrize("dimension", [0, -1, 1.5, True, "6"])
def test_a_dimension_that_cannot_be_is_refused(dimension):
    with pytest.raises(BadInput, match="dimension is"):
        Vectors(dimension)


def test_another_gallery_s_dimension_is_refused(gallery):
    with pytest.raises(GalleryMismatch, match="7 dimensions"):
        Session(Vectors(7), gallery, Frozen())


def test_methods_that_need_an_encoder_say_so(gallery):
    need_none = {"frozen", "tcr_untrained", "tsa"}
    for name in METHODS:
        if name in need_none:
            assert len(Session(Vectors(WIDTH), gallery, METHODS[name]()).answer(rows(8, 1))) == 8
            continue
        with pytest.raises(CannotAdapt, match="queries are given as vectors"):
            Session(Vectors(WIDTH), gallery, METHODS[name]())


def test_a_session_does_all_that_needs_no_gradient(gallery, tmp_path):
    encoder = Vectors(WIDTH, model="some-service-v1")
    calm = rows(60, 2)
    guard = Guard(reference=ReferenceQueries.of(encoder, gallery, calm))
    session = Session(
        encoder, gallery, TCRUntrained(), hubs=Hubs(), guard=guard, mode="shadow", name="shop"
    )
    for batch in rows(96, 3, crowd=4.0).split(32):
        answer = session.answer(batch)
    assert session.stats().disagreement == pytest.approx(
        float((answer.top(1).positions != answer.adapted.top(1).positions).float().mean())
    )
    session.save(tmp_path / "shop")
    loaded = Session.load(tmp_path / "shop", encoder, gallery, mode="live")
    later = rows(5, 4, crowd=4.0)
    (many,) = answer_many([loaded], [later])
    assert torch.equal(many.scores(), loaded.answer(later, adapt=False).scores())
    with pytest.raises(BadFile, match="another model"):
        Session.load(tmp_path / "shop", Vectors(WIDTH, model="some-service-v2"), gallery)
