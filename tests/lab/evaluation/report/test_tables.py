"""Tables from cells: means, deviations, averages, what is missing and what is left out."""

import pytest
from made_cells import cell, table_of

from queryshift.lab.evaluation.report import result_tables
from queryshift.lab.evaluation.report.result_tables import Column, tabulate


def means(table, label):
    return [None if entry is None else entry.mean for entry in table.rows[label]]


def test_a_row_per_method_a_column_per_shift_and_the_average_last():
    cells = table_of({"rest": (60, 70), "frozen": (50, 40)}, ("jpeg", "fog"))
    (table,) = tabulate(cells)
    assert table.title == "coco-o-image, severity 5"
    assert table.names == ("fog", "jpeg", "average")
    assert list(table.rows) == ["frozen", "rest"]  # as METHODS lists them
    assert means(table, "rest") == [70, 60, 65]


def test_deviation_is_over_seeds_and_an_average_has_its_own():
    cells = [
        cell("rest", shift, recall, seed=seed)
        for seed, recalls in enumerate([(40, 60), (50, 40)])
        for shift, recall in zip(("fog", "jpeg"), recalls, strict=True)
    ]
    (table,) = tabulate(cells)
    fog, jpeg, average = table.rows["rest"]
    assert (fog.mean, fog.deviation, fog.seeds) == pytest.approx((45, 50**0.5, 2))
    assert jpeg.deviation == pytest.approx(200**0.5)
    assert (average.mean, average.deviation) == pytest.approx((47.5, 12.5**0.5))


def test_one_seed_has_no_deviation():
    (table,) = tabulate([cell()])
    assert table.rows["frozen"][0].deviation is None


def test_a_method_without_all_shifts_has_no_average():
    cells = [*table_of({"frozen": (50, 40)}), cell("rest", "fog", 60)]
    (table,) = tabulate(cells)
    assert means(table, "rest") == [60, None, None]
    assert table.notes == ("rest: 1 of 2 streams missing, so no average.",)


def test_an_average_takes_only_whole_seeds():
    cells = [*table_of({"rest": (50, 40)}), cell("rest", "fog", 90, seed=1)]
    (table,) = tabulate(cells)
    assert means(table, "rest") == [70, 40, 45]


def test_cells_over_fewer_queries_are_left_out_and_named():
    cells = [cell("frozen", queries=200), cell("rest", recall=99, queries=100)]
    (table,) = tabulate(cells)
    assert list(table.rows) == ["frozen"]
    (note,) = table.notes
    assert note == (
        "Left out 1 cells of coco-o-image over 100 queries and 1000 candidates: "
        "the others have 200 and 1000."
    )


def test_severities_models_and_benchmarks_have_tables_of_their_own():
    cells = [cell(), cell(severity=3), cell(model="blip"), cell(benchmark="flickr-o-image")]
    assert [table.title for table in tabulate(cells)] == [
        "coco-o-image, severity 5",
        "coco-o-image, severity 3",
        "blip, coco-o-image, severity 5",
        "flickr-o-image, severity 5",
    ]


def test_benchmarks_of_one_stream_share_a_table_each_with_its_metric():
    natural = {"shift": "", "severity": 0}
    cells = [
        cell("rest", benchmark="cirr2fiq", recall=10, **natural),
        cell("rest", benchmark="general2coco-image", recall=30, **natural),
        cell("rest", benchmark="coco-d-image", shift="", protocol="diverse"),
    ]
    other, diverse = tabulate(cells)
    assert (other.title, diverse.title) == ("another domain", "diverse shift")
    assert other.columns == (
        Column("general2coco-image", "", "recall@1"),
        Column("cirr2fiq", "", "recall@10"),
    )
    assert other.names == ("general2coco-image", "cirr2fiq", "average")


def test_clean_queries_are_not_averaged_with_those_of_another_domain():
    names = ("tangram-clean-image", "tangram2crayon-image")
    streams = [cell("rest", "", benchmark=name, severity=0) for name in names]
    assert [table.title for table in tabulate(streams)] == ["clean queries", "another domain"]


def test_a_metric_asked_for_counts_everywhere():
    (table,) = tabulate([cell("rest"), cell()], "median_rank")
    assert not table.higher_is_better
    assert table.columns[0].metric == "median_rank"


def test_benchmarks_and_shifts_of_ones_own_are_welcome():
    cells = [cell(benchmark="mine", shift=shift) for shift in ("rust", "fog", "dust")]
    (table,) = tabulate(cells)
    assert table.names == ("fog", "dust", "rust", "average")
    assert result_tables.metric_of("mine") == "recall@1"


def test_labels_tell_variants_of_a_method_apart():
    cells = [cell("rest", label="rest, slow"), cell("rest"), cell("tent"), cell("mine")]
    (table,) = tabulate(cells)
    assert list(table.rows) == ["tent", "rest", "rest, slow", "mine"]
