"""What every text corruption promises: type, seed, order of severities, bad input."""

import subprocess
import sys
from statistics import fmean

import pytest
from edit_distance import edit_distance
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from photo_captions import WRITTEN, generated

from queryshift.errors import BadInput
from queryshift.lab.corruptions import NAMES, corrupt, text

RATED = [*text.FAMILIES["character"], *text.FAMILIES["word"]]
STYLES = [style for style in text.FAMILIES["sentence"] if style is not text.backtranslation]
PUBLISHED = [text.as_published(corruption) for corruption in RATED]
ALL = [*RATED, *STYLES, *PUBLISHED]

every_corruption = pytest.mark.parametrize("corruption", ALL, ids=lambda c: c.__name__)
captions = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from([word for caption in WRITTEN for word in caption.split()])).map(
        " ".join
    ),
)
severities = st.integers(1, 5)
seeds = st.integers(0, 2**32)


def test_families_are_the_names_of_the_table():
    named = {
        family: tuple(corruption.__name__ for corruption in corruptions)
        for family, corruptions in text.FAMILIES.items()
    }
    assert named == NAMES["text"]


@every_corruption
@settings(max_examples=30, deadline=None)
@given(caption=captions, severity=severities, seed=seeds)
def test_text_stays_text_and_never_vanishes(corruption, caption, severity, seed):
    first = corruption(caption, severity, default_rng(seed))
    assert type(first) is str
    assert bool(first) == bool(caption)
    assert corruption(caption, severity, default_rng(seed)) == first


@pytest.mark.parametrize("corruption", RATED, ids=lambda c: c.__name__)
def test_the_highest_severity_is_farther_from_clean_than_the_lowest(corruption):
    captions = [*WRITTEN, *generated(200)]

    def distance(severity):
        return fmean(
            edit_distance(caption, corrupt(caption, corruption, severity, seed=0, item_id=place))
            for place, caption in enumerate(captions)
        )

    assert distance(5) > 1.2 * distance(1)


@every_corruption
def test_nothing_in_the_surroundings_decides(corruption):
    alone = corrupt(WRITTEN[17], corruption, 5, seed=3, item_id=17)
    for place, caption in enumerate(WRITTEN[:17]):
        corrupt(caption, corruption, 5, seed=3, item_id=place)
    assert corrupt(WRITTEN[17], corruption, 5, seed=3, item_id=17) == alone


def test_outcomes_are_the_same_in_another_process():
    script = (
        "from queryshift.lab.corruptions import corrupt, text\n"
        "for name in ('ocr', 'synonym_replacement', 'word_insertion', 'passive'):\n"
        "    for published in (False, True):\n"
        "        corruption = getattr(text, name)\n"
        "        if published and name != 'passive':\n"
        "            corruption = text.as_published(corruption)\n"
        f"        print(corrupt({WRITTEN[0]!r}, corruption, 5, seed=1, item_id='a'))\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    ]
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0].splitlines())) == 7


def test_importing_loads_no_table_and_no_model():
    script = (
        "import sys, queryshift.lab.corruptions.text as text\n"
        "from queryshift.lab.corruptions.text import wordnet\n"
        "assert wordnet._table.cache_info().currsize == 0\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@every_corruption
@pytest.mark.parametrize("severity", [0, 6, 1.5, True, None])
def test_a_severity_out_of_range_is_refused(corruption, severity):
    with pytest.raises(BadInput, match="from 1 to 5"):
        corruption("A dog runs.", severity, default_rng(0))


@every_corruption
@pytest.mark.parametrize("item", [None, b"A dog", ["A dog"]])
def test_what_is_not_text_is_refused(corruption, item):
    with pytest.raises(BadInput, match="a caption is a str; got"):
        corruption(item, 1, default_rng(0))


class TestLevels:
    def test_a_fixed_level_ignores_the_severity_but_checks_it(self):
        weak, strong = (text.at_level(text.word_deletion, level) for level in (1, 7))
        rng = default_rng
        assert weak(WRITTEN[0], 1, rng(0)) == weak(WRITTEN[0], 5, rng(0))
        assert len(weak(WRITTEN[0], 1, rng(0))) > len(strong(WRITTEN[0], 1, rng(0)))
        assert strong.__name__ == "at_level(word_deletion, 7)"
        with pytest.raises(BadInput):
            weak(WRITTEN[0], 7, rng(0))

    @pytest.mark.parametrize("level", [0, 8, "3"])
    def test_other_levels_are_refused(self, level):
        with pytest.raises(BadInput, match="published levels are 1 to 7"):
            text.at_level(text.ocr, level)

    def test_styles_have_one_level_only(self):
        with pytest.raises(BadInput, match="passive has no levels"):
            text.at_level(text.passive, 3)


class TestSimilar:
    """The filter, with the share of clean words as the sentence encoder."""

    def encode(self, caption):
        return [float(word in caption.split()) for word in WRITTEN[5].split()]

    def test_draws_until_the_result_is_close_enough(self):
        close = text.similar(text.word_deletion, self.encode)
        for seed in range(20):
            drawn = close(WRITTEN[5], 5, default_rng(seed))
            assert len(drawn.split()) >= 0.81 * len(WRITTEN[5].split())

    def test_keeps_the_last_draw_when_none_is(self):
        drawn = []

        def draw(caption, severity, rng):
            drawn.append(f"draw {len(drawn)}")
            return drawn[-1]

        never = text.similar(draw, lambda caption: [1.0, 0.0] if caption == "A dog" else [0.0, 1.0])
        assert never("A dog", 1, default_rng(0)) == "draw 99"
        assert len(drawn) == 100

    def test_its_name_says_so(self):
        assert text.similar(text.ocr, self.encode).__name__ == "similar(ocr)"
