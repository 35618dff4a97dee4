"""Reference queries: which numbers are accepted, which samples and galleries are warned of."""

import inspect
import warnings
from pathlib import Path

import pytest
import torch

from queryshift import Gallery, ReferenceQueries, ReferenceWarning, Vectors
from queryshift.errors import BadInput
from queryshift.sessions.reference_queries import _alike, _warn_of_missing_answers, gallery_print

GIVEN = {"mean": 0.5, "deviation": 0.1, "count": 200}


@pytest.mark.parametrize(
    ("name", "fine", "refused"),
    [
        ("limit", 0.0, -0.01),
        ("patience", 1, 0),
        ("mean", 1.01, 1.02),
        ("mean", -1.01, -1.02),
        ("deviation", 1e-5, 0.9e-5),
        ("count", 2, 1),
    ],
)
def test_the_last_number_that_is_accepted_and_the_first_that_is_not(name, fine, refused):
    assert getattr(ReferenceQueries(**{**GIVEN, name: fine}), name) == fine
    with pytest.raises(BadInput):
        ReferenceQueries(**{**GIVEN, name: refused})


def scores(first: float, near: float, far: float, width: int = 100) -> list[torch.Tensor]:
    """Scores of two batches whose means at ranks 1, 10 and 100 are these, others far away."""
    means = torch.full((width,), -9.0, dtype=torch.float64)
    for rank, value in ((1, first), (10, near), (100, far)):
        if rank <= width:
            means[rank - 1] = value
    return [means + shift * torch.ones(2, width) for shift in (0.0, 0.3)]


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ({"first": 0.81, "near": 0.45, "far": 0.06}, False),  # a ratio of 0.92
        ({"first": 0.79, "near": 0.45, "far": 0.06}, True),  # 0.87
        ({"first": 0.50, "near": 0.45, "far": 0.45}, False),  # nothing is behind them
        ({"first": 0.45, "near": 0.45, "far": 0.45}, True),
        ({"first": 0.50, "near": 0.45, "far": 0.06, "width": 99}, False),  # too few to tell
    ],
)
def test_top_1_results_must_be_clearly_closer_than_the_tenth(given, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _warn_of_missing_answers(scores(**given))
    assert [one.category for one in caught] == [ReferenceWarning] * warned


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("v1-aa", "v1-aa", True),
        ("v1-aa", "v1-bb", False),
        ("v1-aa", "v2-aa", False),
        ("v1", "v1-bb", True),
        ("v1-aa", "v1", True),
        ("v1", "v2", False),
    ],
)
def test_a_gallery_is_known_by_its_version_and_its_vectors_if_both_have_them(one, other, alike):
    assert _alike(one, other) == alike


@pytest.mark.parametrize("count", [5, 16, 40])
def test_a_gallery_with_the_same_ids_and_other_vectors_has_another_print(count):
    turned = torch.eye(7)[torch.arange(count) % 7]
    there = Gallery.from_vectors(range(count), turned)
    assert gallery_print(there) == gallery_print(Gallery.from_vectors(range(count), turned))
    other = Gallery.from_vectors(range(count), turned.roll(1, dims=1))
    assert gallery_print(there) != gallery_print(other)


def test_batches_that_leave_too_few_candidates_to_tell_are_no_error():
    vectors = torch.eye(100)[:, None]
    there = Gallery(range(100), vectors)
    asked = torch.nn.functional.normalize(
        torch.eye(100)[:6] + torch.linspace(0, 0.1, 600).view(6, 100), dim=1
    )
    left_out = [[7, 8], *[None] * 5]  # the first batch of two finds 98, the others 100
    known = ReferenceQueries.of(Vectors(100), there, asked, exclude=left_out, batch_size=2)
    assert known.count == 6


def test_four_batches_in_a_row_end_a_shift_as_the_guide_says():
    of = inspect.signature(ReferenceQueries.of).parameters["patience"].default
    guide = Path(__file__).parents[2] / "docs" / "guard.md"
    assert ReferenceQueries(**GIVEN).patience == of
    assert f"`ReferenceQueries.of(..., patience={of})`" in guide.read_text(encoding="utf-8")
