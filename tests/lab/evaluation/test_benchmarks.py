"""The table of benchmarks: the paper's twenty, what each asks, and what that does to queries."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from queryshift.cli.run import command
from queryshift.errors import BadInput, UnknownName
from queryshift.lab import corruptions
from queryshift.lab.datasets import DATASETS
from queryshift.lab.datasets.tangram import COMPOSED, SENTENCE, TASKS
from queryshift.lab.evaluation import paper
from queryshift.lab.evaluation.benchmark_methods import method_of
from queryshift.lab.evaluation.benchmarks import (
    AS_IT_IS,
    BENCHMARKS,
    PAPER,
    SERIES,
    find,
)
from queryshift.lab.evaluation.corrupted_queries import (
    CorruptionAssets,
    Shifted,
    corruption_of,
    needs_translator,
    weight,
)
from queryshift.models import MODELS

TWENTY = """coco-o coco-d flickr-o flickr-d audioset-o audioset-d fiq-o fiq-d cirr-o cirr-d
general2flickr general2coco general2nocaps-id general2nocaps-od general2rsicd general2rsitmd
audioset2vgg fiq2cirr cirr2fiq fashion-gen"""
ROWS = pytest.mark.parametrize("row", BENCHMARKS.values(), ids=BENCHMARKS)
REAL = {f"{name}{side}" for name in ("aws", "msmarco", "pacs", "esc50") for side in ("", "-dev")}
TRANSLATOR = ("there", "back")


def test_the_papers_twenty():
    assert sorted(PAPER) == sorted(TWENTY.split())
    ways = {f"tangram{world}-{way}" for world in ("", "-sealed") for way in ("o", "d", "clean")}
    embedded = ways | {"tangram2crayon", "tangram2products", "tangram-sentence"}
    photographs = {f"flickr8k{dev}-{way}" for dev in ("", "-dev") for way in ("o", "d", "clean")}
    assert set(SERIES) == set(PAPER) | embedded | photographs | REAL | {"real-clip"}


def test_real_sets_have_a_development_part_in_the_same_form():
    for name in (row.name for row in BENCHMARKS.values() if row.series in REAL):
        row, other = BENCHMARKS[name], BENCHMARKS[_other_side(name)]
        assert (row.shifts, row.severities) == (other.shifts, other.severities)
        assert row.part != other.part and not row.diverse
    assert BENCHMARKS["aws-typos"].severities == (2, 5)  # 10 % and 25 % of the letters


def _other_side(name):
    series = BENCHMARKS[name].series
    twin = series.removesuffix("-dev") if series.endswith("-dev") else f"{series}-dev"
    return name.replace(series, twin, 1)


def test_the_documentation_names_every_benchmark_and_option():
    page = (Path(__file__).parents[3] / "docs" / "benchmarks.md").read_text()
    assert [name for name in SERIES if f"`{name}`" not in page] == []
    known = {option for parameter in command.params for option in parameter.opts}
    told = set(re.findall(r"--[a-z][a-z-]+", page))
    of_other_commands = {"--layout", "--preset", "--part"}
    assert told - known == of_other_commands


def test_every_retrieval_column_of_the_paper_is_a_row():
    columns = [one.column for one in paper.values() if one.column.metric.startswith("recall")]
    assert {one.benchmark for one in columns} == {
        name for name, row in BENCHMARKS.items() if row.series in PAPER
    }
    for column in columns:
        row = BENCHMARKS[column.benchmark]
        assert column.metric == row.metric and column.shift in row.shifts


@pytest.mark.parametrize(
    ("name", "shifts"),
    [
        ("coco-o-image", 16),
        ("flickr-o-text", 15),
        ("audioset-o-video", 4),
        ("audioset-o-audio", 1),
        ("fiq-o", 12),
        ("tangram-o-composed", 12),
        ("tangram-o-video", 12),
        ("tangram-o-audio", 6),
        ("tangram-clean-audio", 1),
        ("cirr-d", 1),
        ("general2coco-image", 1),
    ],
)
def test_as_many_shifts_as_the_paper_lists(name, shifts):
    assert len(BENCHMARKS[name].shifts) == shifts


@ROWS
def test_the_papers_settings(row):
    assert row.batch == (32 if row.query == COMPOSED else 64)
    assert row.severities in ((), (5,)) or row.series in REAL
    if row.series in PAPER:
        assert row.temperature == (0.001 if row.dataset == "fashion-gen" else 0.01)
    assert row.diverse == (
        "-d-" in row.name
        or row.name.endswith("-d")
        or "fashion" in row.series
        or "prod" in row.series
    )
    assert row.categories == (("dress", "shirt", "toptee") if row.dataset == "fashion-iq" else ())


@ROWS
def test_a_row_names_things_that_are_there(row):
    assert row.dataset in DATASETS or row.dataset == "tangram"
    hub = "/" in row.model and row.needs == ("a network",)
    assert row.model in MODELS or hub or (not row.model and row.needs[-1] == "--model")
    if row.on_disk:
        reader = DATASETS[row.dataset]
        assert row.query in reader.asks
        assert {*row.categories, *filter(None, [row.part])} <= set(reader.parts)
    assert pickle.loads(pickle.dumps(row)) == row and hash(row)


def test_tangram_has_all_its_tasks():
    asked = {name.rsplit("-", 1)[1] for name in BENCHMARKS if name.startswith("tangram-")}
    assert asked == set(TASKS | SENTENCE)


def test_a_name_of_the_paper_stands_for_its_directions():
    assert [row.name for row in find("coco-o")] == ["coco-o-image", "coco-o-text"]
    assert [row.name for row in find("cirr-o")] == ["cirr-o"]
    assert [row.query for row in find("audioset2vgg-audio")] == ["audio"]
    with pytest.raises(UnknownName, match='did you mean "coco-o"'):
        find("coco-0")


@ROWS
def test_decoupling_and_temperature_of_methods(row):
    rest, tent = method_of("rest", row), method_of("tent", row)
    assert rest.decouple == row.diverse
    assert rest.temperature is None  # the paper's 0.02 everywhere
    assert tent.temperature == row.temperature


ITEMS = {
    "image": np.full((32, 32, 3), 90, np.uint8),
    "text": "a small red circle is left of a large blue square",
    "video": np.full((6, 32, 32, 3), 90, np.uint8),
    "audio": np.sin(np.arange(8000, dtype=np.float32) / 9) / 2,
}
ITEMS[COMPOSED] = (ITEMS["image"], ITEMS["text"])


@pytest.mark.parametrize(
    "name", [row.name for row in BENCHMARKS.values() if row.corrupted and not row.on_disk]
)
def test_every_shift_of_every_modality_can_be_made(name):
    row = BENCHMARKS[name]
    for shift in row.shifts:
        if not needs_translator(row, shift):
            change = corruption_of(row, shift)
            made = corruptions.corrupt(ITEMS[row.query], change, 5, seed=0, item_id="one")
            assert type(made) is type(ITEMS[row.query])
        else:
            with pytest.raises(BadInput, match="--translator THERE BACK"):
                corruption_of(row, shift)


def test_queries_of_another_domain_stay_as_they_are():
    assert corruption_of(BENCHMARKS["tangram-clean-composed"], AS_IT_IS) is None
    assert corruption_of(BENCHMARKS["general2coco-image"], AS_IT_IS) is None
    assert corruption_of(BENCHMARKS["fashion-gen-text"], AS_IT_IS) is None


def test_composed_queries_meet_the_representatives_of_both_categories():
    assert corruption_of(BENCHMARKS["fiq-o"], "weather+word").__name__ == (
        "both(fog, synonym_replacement)"
    )


def test_coco_and_flickr_are_corrupted_as_published():
    text = corruption_of(BENCHMARKS["flickr-o-text"], "word_swap")
    image = corruption_of(BENCHMARKS["coco-o-image"], "pixelate")
    assert text("A Dog.", 5, np.random.default_rng(0)).islower()  # EDA's side effect
    wide = image(np.zeros((20, 40, 3), np.uint8), 5, np.random.default_rng(0))
    assert wide.shape == (40, 20, 3)  # the published exchange of height and width
    assert corruption_of(BENCHMARKS["coco-o-text"], "formal") is corruptions.find("text", "formal")
    assert not any(
        row.as_published
        for row in BENCHMARKS.values()
        if row.series not in ("coco-o", "coco-d", "flickr-o", "flickr-d")
    )


def drawn_from(made):
    """The corruptions that segments or a draw are made of."""
    (corruptions,) = made.parts
    return corruptions


def test_back_translation_needs_a_translator():
    row = BENCHMARKS["cirr-o"]
    assert needs_translator(row, "blur+sentence") and not needs_translator(row, "blur+word")
    with pytest.raises(BadInput, match="translation models"):
        corruption_of(row, "blur+sentence")
    made = corruption_of(row, "blur+sentence", CorruptionAssets(translator=TRANSLATOR))
    assert made.parts[1].parts == TRANSLATOR
    tangram = BENCHMARKS["tangram-o-composed"]
    assert corruption_of(tangram, "blur+sentence").__name__ == "both(motion_blur, formal)"


def test_diverse_queries_draw_from_all_there_are():
    image = corruption_of(BENCHMARKS["coco-d-image"], AS_IT_IS)
    text = corruption_of(BENCHMARKS["coco-d-text"], AS_IT_IS)
    both = corruption_of(BENCHMARKS["cirr-d"], AS_IT_IS, CorruptionAssets(translator=TRANSLATOR))
    assert (len(drawn_from(image)), len(drawn_from(text))) == (16, 14)
    assert [len(drawn_from(half)) for half in both.parts] == [16, 15]
    video = corruption_of(BENCHMARKS["audioset-d-video"], AS_IT_IS)
    assert [len(drawn_from(one)) for one in drawn_from(video)] == [2, 2, 2, 3]


def test_sounds_meet_one_corruption_or_the_papers_combination():
    assert corruption_of(BENCHMARKS["tangram-o-audio"], "wind") is corruptions.find("audio", "wind")
    both = corruption_of(BENCHMARKS["audioset-o-audio"], "noise+weather")
    assert len(drawn_from(both)) == 2


def test_recordings_are_laid_over_sounds_as_published(tmp_path):
    made = corruption_of(
        BENCHMARKS["audioset-o-audio"], "noise+weather", CorruptionAssets(noise=tmp_path)
    )
    assert [(one.__name__, one.scale, one.noise) for one in drawn_from(made)] == [
        ("traffic", "read", tmp_path),
        ("wind", "read", tmp_path),
    ]
    assets = CorruptionAssets(noise=tmp_path)
    (drawn,) = drawn_from(corruption_of(BENCHMARKS["audioset-d-audio"], AS_IT_IS, assets))
    kinds = [one for part in drawn_from(drawn) for one in drawn_from(part)]
    assert {one.scale for one in kinds} == {"read"} and len(kinds) == 6
    plain = corruption_of(BENCHMARKS["audioset-o-audio"], "noise+weather")
    assert plain == corruptions.combination("audio", "noise+weather")


def test_an_unknown_shift_is_named():
    with pytest.raises(BadInput, match='no shift "mist"'):
        corruption_of(BENCHMARKS["coco-o-image"], "mist")


class TestShifted:
    def queries(self, seed=0, order=range(5)):
        from queryshift.lab.datasets import Dataset

        pictures = [np.full((16, 16, 3), 9 * i, np.uint8) for i in order]
        ids = [str(i) for i in order]
        dataset = Dataset("few", "image", "text", pictures, ids, ["a"], [[0]] * 5)
        return Shifted(dataset, corruptions.find("image", "gaussian_noise"), 5, seed)

    def test_an_item_is_the_same_whenever_it_is_asked(self):
        late = self.queries()[4]
        assert np.array_equal(late, list(self.queries())[4])
        assert not np.array_equal(late, self.queries(seed=1)[4])

    def test_an_item_is_corrupted_alike_in_whatever_row_it_stands(self):
        plain, turned = list(self.queries()), list(self.queries(order=(3, 0, 4, 2, 1)))
        for row, number in enumerate((3, 0, 4, 2, 1)):
            assert np.array_equal(turned[row], plain[number])

    def test_beyond_its_room_it_keeps_nothing(self, monkeypatch):
        name = "queryshift.lab.evaluation.corrupted_queries.KEPT_BYTES"
        monkeypatch.setattr(name, 2 * 16 * 16 * 3)
        queries = self.queries()
        first, again = list(queries), list(queries)
        kept = [old is new for old, new in zip(first, again, strict=True)]
        assert kept == [True, True, False, False, False]
        assert all(map(np.array_equal, first, again))

    def test_what_an_item_weighs(self):
        from PIL import Image

        assert weight(Image.new("RGB", (10, 20))) == 800
        assert weight(("four", np.zeros(3, np.uint8))) == 7
