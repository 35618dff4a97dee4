"""The paper's tables: each row adds up, each name is one of ours, and cells read off by hand."""

from statistics import mean

import pytest

from queryshift import METHODS
from queryshift.errors import UnknownName
from queryshift.lab.corruptions.names import COMBINATIONS, NAMES
from queryshift.lab.evaluation import paper
from queryshift.lab.evaluation.benchmarks import BENCHMARKS, PAPER
from queryshift.methods import OURS
from queryshift.methods.specs import canonical

ALL = [paper.table(name) for name in paper.TABLES]
SHIFTS = {name for family in NAMES.values() for names in family.values() for name in names}
SHIFTS |= {name for names in COMBINATIONS.values() for name in names} | {""}


@pytest.mark.parametrize("table", ALL, ids=paper.TABLES)
class TestEveryTable:
    def test_averages_are_their_rows_means(self, table):
        near = 0.6 if table.name == "seconds" else 0.11
        for row in table.rows:
            assert len(row.values) == len(table.columns)
            if table.name != "ablation-decoupling":  # has no averages
                assert row.average == pytest.approx(mean(row.values), abs=near), row

    def test_names_are_ours(self, table):
        assert {row.method for row in table.rows} <= set(METHODS)
        for row in table.rows:  # written as a run writes them, so that `--paper` finds ablations
            assert canonical(row.label) == row.label
            assert row.label.startswith(row.method)
        assert {column.shift for column in table.columns} <= SHIFTS

    def test_every_number_has_one_place(self, table):
        assert len(set(table.columns)) == len(table.columns)
        labels = [(row.model, row.label) for row in table.rows]
        assert len(set(labels)) == len(labels)

    def test_every_number_has_a_model(self, table):
        models = {one.model for one in paper.values() if one.table == table.name}
        known = {"BLIP ViT-B/16", "BLIP ViT-L/16", "BLIP ViT-B/16 with matching"}
        assert models <= known | {"CAV-MAE", "BLIP-2"}

    def test_values_are_possible(self, table):
        for one in paper.values():
            if one.table == table.name and one.column.metric.startswith("recall@"):
                assert 0 <= one.value <= 100


def test_full_comparisons_have_all_eleven_methods():
    full = [table for table in ALL if not table.name.startswith(("ablation", "seconds"))]
    assert len(full) == 13
    for table in full:
        for model in {row.model for row in table.rows}:
            methods = [row.method for row in table.rows if row.model == model]
            assert methods == [name for name in METHODS if name not in OURS]


def test_all_numbers_are_here():
    assert sum(1 for _ in paper.values()) == 2370


@pytest.mark.parametrize(
    ("benchmark", "shift", "label", "model", "value"),
    [
        ("coco-o-image", "gaussian_noise", "frozen", "", 43.4),
        ("coco-o-image", "zoom_blur", "rest", "", 37.7),
        ("coco-o-image", "jpeg", "come", "", 67.7),
        ("coco-o-image", "zoom_blur", "tcr", "BLIP ViT-L/16", 39.3),
        ("coco-o-image", "pixelate", "rest", "BLIP ViT-B/16 with matching", 49.1),
        ("coco-o-text", "ocr", "frozen", "", 31.4),
        ("coco-o-text", "word_insertion", "shot", "BLIP ViT-L/16", 54.5),
        ("coco-o-text", "backtranslation", "rest", "BLIP ViT-B/16 with matching", 60.5),
        ("flickr-o-image", "brightness", "read", "", 87.7),
        ("flickr-o-image", "fog", "tcr", "BLIP ViT-L/16", 86.4),
        ("flickr-o-text", "character_replace", "pl", "", 13.6),
        ("flickr-o-text", "active", "frozen", "BLIP ViT-L/16", 83.5),
        ("fiq-o", "weather+sentence", "pl", "", 43.8),
        ("cirr-o", "blur+character", "come", "", 27.6),
        ("audioset-o-video", "noise+blur+digital", "sar", "", 8.9),
        ("audioset-o-audio", "noise+weather", "rest", "", 9.5),
        ("general2coco-text", "none", "come", "", 26.3),
        ("cirr2fiq", "none", "rest", "", 36.1),
        ("general2rsitmd-image", "none", "rest", "", 9.8),
        ("coco-d-image", "mixed", "rest", "", 51.8),
        ("audioset-d-audio", "mixed", "shot", "CAV-MAE", 2.7),
        ("coco-d-text", "mixed", "tent+decoupled", "", 40.4),
        ("fashion-gen-text", "none", "rest:decouple=false", "", 28.6),
        ("general2coco-image", "none", "rest:entropy=false,mining=false", "", 66.7),
    ],
)
def test_cells_read_off_by_hand(benchmark, shift, label, model, value):
    found = paper.find(benchmark, shift, label, model)
    assert found is not None
    assert found.value == value


@pytest.mark.parametrize(
    ("benchmark", "shift", "label", "model"),
    [
        ("tangram-o-image", "fog", "rest", ""),
        ("coco-o-image", "ocr", "rest", ""),
        ("coco-o-image", "fog", "tcr_untrained", ""),
        ("coco-o-image", "fog", "rest", "CAV-MAE"),
    ],
)
def test_what_the_paper_does_not_have(benchmark, shift, label, model):
    assert paper.find(benchmark, shift, label, model) is None


def test_tables_that_share_a_measurement_agree():
    seen: dict[tuple[object, ...], float] = {}
    for one in paper.values():
        where = (
            one.column.benchmark,
            one.column.shift,
            one.column.metric,
            one.row.label,
            one.model,
        )
        assert seen.setdefault(where, one.value) == one.value, where


def test_the_table_of_seconds():
    seconds = paper.table("seconds")
    assert [row.method for row in seconds.rows] == ["tent", "eata", "read", "tsa", "rest"]
    assert seconds.rows[-1].values == (101, 173, 384, 229)
    assert seconds.rows[-1].average == 222


def test_an_unknown_model_is_named_with_those_there_are():
    with pytest.raises(UnknownName, match="Known: BLIP ViT-B/16, BLIP-2"):
        paper.find("coco-o-image", "fog", "rest", "BLIP ViT-L/14")


def test_columns_are_streams_of_our_benchmarks_judged_alike():
    for one in paper.values():
        if one.column.metric == "angle":  # of both directions together
            continue
        row = BENCHMARKS[one.column.benchmark]
        assert one.column.shift in row.shifts
        assert one.column.metric in (row.metric, "seconds")


def test_all_of_the_papers_benchmarks_are_in_its_tables():
    tabled = {one.column.benchmark for one in paper.values()}
    missing = {row.name for row in BENCHMARKS.values() if row.series in PAPER} - tabled
    assert missing == set()


def test_an_unknown_table_is_named_with_its_neighbours():
    with pytest.raises(UnknownName, match='did you mean "flickr-o-image"'):
        paper.table("flickr-o-imag")
