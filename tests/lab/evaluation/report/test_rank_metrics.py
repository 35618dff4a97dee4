"""Metrics from ranks: by hand, and as the tensor functions compute them."""

import numpy as np
import pytest

from queryshift.errors import UnknownName
from queryshift.lab.evaluation.rank_metrics import METRICS, metric

RANKS = np.array([[1, 3], [2, 0], [6, 7], [51, 90]], dtype=np.uint32)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recall@1", 25.0),
        ("recall@5", 50.0),
        ("recall@10", 75.0),
        ("recall@51", 100.0),
        ("mean_rank", 15.0),
        ("median_rank", 4.0),
        ("map", 100 * ((1 + 2 / 3) / 2 + 1 / 2 + (1 / 6 + 2 / 7) / 2 + (1 / 51 + 2 / 90) / 2) / 4),
    ],
)
def test_by_hand(name, value):
    assert metric(name).of(RANKS) == pytest.approx(value)


def test_groups_count_the_same_whatever_their_size():
    categories = {"dress": 1, "shirt": 3}
    assert metric("recall@5").of(RANKS, categories) == pytest.approx((100 + 100 / 3) / 2)


@pytest.mark.parametrize("name", [name for name in METRICS if name != "median_rank"])
def test_the_mean_of_the_shares_is_the_metric(name):
    categories = {"dress": 1, "shirt": 3}
    assert metric(name).is_mean
    for some in (None, categories):
        assert metric(name).shares(RANKS, some).mean() == pytest.approx(
            metric(name).of(RANKS, some)
        )


def test_a_median_has_no_shares():
    assert not metric("median_rank").is_mean


def test_low_ranks_are_good():
    assert [metric(name).higher_is_better for name in METRICS].count(False) == 2


@pytest.mark.parametrize("name", ["recall@0", "recall", "ndcg"])
def test_an_unknown_metric_is_named(name):
    with pytest.raises(UnknownName, match="Known: recall@1, "):
        metric(name)
