"""The base check: frozen uncorrupted rows against the paper's, and nothing else."""

import pytest
from made_cells import cell

from queryshift.errors import BadInput
from queryshift.lab.evaluation.report.paper_numbers import check_base

NATURAL = {"shift": "", "severity": 0, "queries": 1000}


def test_a_right_base_passes():
    cells = [
        cell(benchmark="general2coco-image", recall=59.3, **NATURAL),
        cell(benchmark="general2coco-text", recall=45.6, **NATURAL),
        cell("rest", benchmark="general2coco-text", recall=1, **NATURAL),
    ]
    image, text = check_base(cells)
    assert image == "general2coco-image, recall@1: ours 59.3, paper 59.3, +0.0"
    assert text.endswith("ours 45.6, paper 45.4, +0.2")


def test_a_wrong_base_stops_with_the_usual_causes():
    wrong = cell(benchmark="general2flickr-image", recall=70.4, **NATURAL)
    with pytest.raises(BadInput, match=r"ours 70\.4, paper 70\.0, \+0\.4") as error:
        check_base([wrong])
    assert "384 pixels" in str(error.value)
    assert "checkpoint" in str(error.value)
    assert "CIRR's answers are public for val alone" in str(error.value)


def test_seeds_are_averaged():
    cells = [
        cell(benchmark="general2coco-image", recall=recall, seed=seed, **NATURAL)
        for seed, recall in enumerate((58.8, 59.8))
    ]
    assert len(check_base(cells)) == 1


def test_the_benchmarks_own_metric_counts():
    fiq = cell(
        benchmark="cirr2fiq", ranks=[1] * 200 + [10] * 146 + [11] * 654, **_without_queries()
    )
    assert "ours 34.6," in check_base([fiq])[0]


def _without_queries():
    return {"shift": "", "severity": 0}


def test_corrupted_rows_and_unknown_benchmarks_are_not_compared():
    cells = [
        cell(benchmark="coco-o-image", recall=1),
        cell(benchmark="coco-d-image", recall=1, shift="", protocol="diverse"),
        cell(benchmark="tangram2crayon-image", recall=1, **NATURAL),
        cell(benchmark="mine", recall=1, **NATURAL),
    ]
    assert check_base(cells) == []


def test_diverse_but_uncorrupted_rows_are():
    fashion = cell(benchmark="fashion-gen-image", protocol="diverse", recall=19.9, **NATURAL)
    assert len(check_base([fashion])) == 1
