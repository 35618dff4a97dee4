"""The bootstrap: its spread, its pairing, its error rate; Holm's rule by hand."""

import numpy as np
import pytest

from queryshift.lab.evaluation.significance import draw_seeds, holm, p_values, resampled_means


def test_holm_by_hand():
    given = np.array([0.01, 0.04, 0.03, 0.005])
    assert holm(given) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(given.reshape(2, 2)).shape == (2, 2)


def test_holm_never_exceeds_one_nor_lowers():
    given = np.random.default_rng(0).random(50)
    adjusted = holm(given)
    assert (adjusted >= given).all()
    assert adjusted.max() == 1
    assert (np.diff(adjusted[np.argsort(given)]) >= 0).all()


def test_resampled_means_spread_as_theory_says():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2, 1, 400))
    means = resampled_means(scores, draw_seeds(1, 4000, rng), rng)
    assert means.shape == (4000, 2)
    assert means.mean(axis=0) == pytest.approx(scores.mean(axis=(1, 2)), abs=0.005)
    assert means.std(axis=0) == pytest.approx(scores.std(axis=2)[:, 0] / 20, rel=0.05)


def test_seeds_that_differ_widen_the_spread():
    rng = np.random.default_rng(0)
    scores = np.zeros((3, 400)) + np.array([[0.0], [1.0], [2.0]])
    means = resampled_means(scores, draw_seeds(3, 4000, rng), rng)
    assert means.std() == pytest.approx(np.sqrt(2 / 3) / np.sqrt(3), rel=0.05)


def test_queries_are_drawn_the_same_for_all():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(1, 1, 300))
    pair = np.concatenate([base, base + 0.1])
    means = resampled_means(pair, draw_seeds(1, 500, rng), rng)
    assert means[:, 1] - means[:, 0] == pytest.approx(np.full(500, 0.1))


def test_drawing_in_parts_still_draws_every_resample(monkeypatch):
    monkeypatch.setattr("queryshift.lab.evaluation.significance._DRAWN_AT_ONCE", 1000)
    rng = np.random.default_rng(0)
    means = resampled_means(np.arange(300.0)[None, None], draw_seeds(1, 57, rng), rng)
    assert means.shape == (57, 1)
    assert len(np.unique(means)) > 50


def test_the_same_seed_gives_the_same_answer():
    scores = np.random.default_rng(1).random((2, 2, 50))
    runs = []
    for _ in range(2):
        rng = np.random.default_rng(3)
        runs.append(resampled_means(scores, draw_seeds(2, 100, rng), rng))
    assert np.array_equal(*runs)


def test_p_values_by_hand():
    differences = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    assert p_values(differences) == pytest.approx([0.5, 1.0, 1.0])


def test_rounding_is_no_difference():
    assert p_values(np.full((1000, 1), 1e-13)) == pytest.approx([1.0])


def test_equal_methods_are_rarely_told_apart():
    """Of 200 pairs that differ by chance alone, about 5 percent fall below 0.05."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(200, 1, 200))
    means = resampled_means(noise, draw_seeds(1, 1000, rng), rng)
    assert 0.01 <= (p_values(means) <= 0.05).mean() <= 0.10


def test_a_true_difference_is_found():
    rng = np.random.default_rng(0)
    better = rng.normal(0.3, size=(100, 1, 200))
    means = resampled_means(better, draw_seeds(1, 1000, rng), rng)
    assert (p_values(means) <= 0.05).mean() > 0.9
