"""Marks: best and second as printed, and only differences that the bootstrap upholds."""

import numpy as np
import pytest
from made_cells import cell, table_of

from queryshift.lab.evaluation.report.result_tables import tabulate
from queryshift.lab.evaluation.report.significance_marks import places, significance

RESAMPLES = 2000


def place(table, column=0):
    return {label: row[column].place for label, row in table.rows.items()}


def marks(table, column=-1):
    return {label: "".join(row[column].marks) for label, row in table.rows.items()}


def judged(cells, metric=None, resamples=RESAMPLES):
    (table,) = tabulate(cells, metric)
    return significance(table, resamples)


def test_the_best_and_the_second():
    cells = table_of({"frozen": (50, 90), "tent": (40, 60), "rest": (60, 70)})
    (table,) = map(places, tabulate(cells))
    assert place(table, 0) == {"frozen": 2, "tent": 0, "rest": 1}
    assert place(table, 1) == {"frozen": 1, "tent": 0, "rest": 2}
    assert place(table, -1) == {"frozen": 1, "tent": 0, "rest": 2}


def test_what_prints_alike_shares_a_place():
    cells = [
        cell("frozen", queries=10_000, recall=50.01),
        cell("tent", queries=10_000, recall=50.04),
        cell("rest", queries=10_000, recall=49),
    ]
    (table,) = map(places, tabulate(cells))
    assert place(table) == {"frozen": 1, "tent": 1, "rest": 2}


def test_low_ranks_win():
    (table,) = map(
        places, tabulate([cell("frozen", recall=10), cell("rest", recall=80)], "mean_rank")
    )
    assert place(table) == {"frozen": 2, "rest": 1}


def test_a_method_alone_is_not_the_best():
    (table,) = map(places, tabulate([cell()]))
    assert place(table) == {"frozen": 0}


def test_large_differences_are_marked():
    found = judged(table_of({"frozen": (50, 40), "tent": (20, 10), "rest": (80, 70)}))
    assert marks(found) == {"frozen": "", "tent": "↓", "rest": "*†"}
    assert found.notes[-1] == "Tested on 1 seed that all methods have, with 2,000 resamples."


@pytest.mark.parametrize("metric", ["mean_rank", "map", "recall@10"])
def test_of_any_mean(metric):
    found = judged(table_of({"frozen": (30, 30), "rest": (90, 90)}), metric)
    assert marks(found)["rest"] == "*†"


def test_small_differences_are_not():
    found = judged(table_of({"frozen": (50, 40), "tent": (50.5, 40), "rest": (51, 40.5)}))
    assert set(marks(found).values()) == {""}


def test_equal_methods_are_not():
    found = judged(table_of({"frozen": (50, 40), "rest": (50, 40)}))
    assert set(marks(found).values()) == {""}


def test_pairing_finds_what_unpaired_noise_would_hide():
    """12 of 400 queries gained, none lost: sure in pairs, within the noise of either alone."""
    better = cell("rest", recall=53, queries=400)
    found = judged([cell("frozen", recall=50, queries=400), better])
    assert marks(found)["rest"] == "*†"
    shuffled = np.random.default_rng(0).permutation(better.ranks[:, 0])
    found = judged([cell("frozen", recall=50, queries=400), cell("rest", ranks=shuffled)])
    assert marks(found)["rest"] == ""


def test_without_a_frozen_row_the_runner_up_is_still_met():
    found = judged(table_of({"tent": (20, 10), "rest": (80, 70)}))
    assert marks(found) == {"tent": "", "rest": "†"}


def test_only_seeds_that_all_have_are_tested():
    cells = [
        *(cell("frozen", recall=40, seed=seed) for seed in (0, 1)),
        *(cell("rest", recall=80, seed=seed) for seed in (1, 2)),
    ]
    assert "Tested on 1 seed " in judged(cells).notes[-1]
    apart = [cell("frozen", seed=0), cell("rest", seed=1, recall=90)]
    assert judged(apart).notes == ("No test of differences: the methods have no seed in common.",)


def test_a_gain_that_depends_on_the_seed_is_not_upheld():
    """Sure over the queries of each seed, and on average; other seeds may show the opposite."""
    frozen = [cell("frozen", recall=40, seed=seed) for seed in range(3)]
    uneven, even = (
        [cell("rest", recall=recall, seed=seed) for seed, recall in enumerate(recalls)]
        for recalls in ((70, 70, 25), (55, 55, 55))
    )
    assert marks(judged([*frozen, *uneven]))["rest"] == ""
    assert marks(judged([*frozen, *even]))["rest"] == "*†"


def test_a_method_with_gaps_is_left_out_of_the_tests():
    cells = [*table_of({"frozen": (20, 20), "tent": (80, 80)}), cell("rest", "fog", 95)]
    (table,) = tabulate(cells)
    found = significance(table, RESAMPLES)
    assert found.rows["tent"][-1].marks == ("*", "†")
    assert found.rows["rest"][0].marks == ()


def test_medians_are_not_tested():
    found = judged(table_of({"frozen": (20, 20), "rest": (80, 80)}), "median_rank")
    assert found.notes == ("No test of differences: a median has no shares to resample.",)


def test_too_few_resamples_are_said():
    found = judged(table_of({"frozen": (20, 20), "rest": (80, 80)}), resamples=50)
    assert "too few for 3 comparisons" in found.notes[-1]


def test_no_resamples_no_tests():
    found = judged(table_of({"frozen": (20, 20), "rest": (80, 80)}), resamples=0)
    assert set(marks(found).values()) == {""}
    assert found.notes == ()


def test_benchmarks_of_other_sizes_are_drawn_apart():
    cells = [
        cell(method, "", recall, benchmark=benchmark, severity=0, queries=queries)
        for method, recall in (("frozen", 30), ("rest", 80))
        for benchmark, queries in (("general2coco-image", 300), ("fiq2cirr", 120))
    ]
    assert marks(judged(cells)) == {"frozen": "", "rest": "*†"}
