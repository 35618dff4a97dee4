"""Character-level text corruptions: nlpaug's rates and rules."""

import json
from pathlib import Path
from statistics import fmean

import pytest
from edit_distance import edit_distance, error_rate
from numpy.random import default_rng
from photo_captions import WRITTEN, generated

from queryshift.lab.corruptions import text
from queryshift.lab.corruptions.text.published import respaced

REFERENCE = json.loads(
    (Path(__file__).parents[2] / "data" / "nlpaug_error_rates.json").read_text("utf-8")
)
CAPTIONS = [caption for caption in [*WRITTEN, *generated(280)] if respaced(caption) == caption]
CHARACTER = {corruption.__name__: corruption for corruption in text.FAMILIES["character"]}


def corrupted(name, caption, seed=0, severity=5):
    return CHARACTER[name](caption, severity, default_rng(seed))


def test_the_captions_are_those_the_reference_was_measured_on():
    assert len(CAPTIONS) == REFERENCE["captions"]


@pytest.mark.parametrize("level", text.LEVELS)
@pytest.mark.parametrize("name", CHARACTER)
def test_error_rate_is_within_ten_percent_of_nlpaug(name, level):
    corruption, rng = text.at_level(CHARACTER[name], level), default_rng(level)
    draws = CAPTIONS * (4 if level < 3 else 2)
    measured = fmean(error_rate(caption, corruption(caption, 1, rng)) for caption in draws)
    assert measured == pytest.approx(REFERENCE["rates"][name][str(level)], rel=0.1)


@pytest.mark.parametrize("severity", range(1, 6))
def test_severities_are_the_published_levels_three_to_seven(severity):
    for name, corruption in CHARACTER.items():
        fixed = text.at_level(corruption, severity + 2)
        assert fixed(WRITTEN[0], 1, default_rng(3)) == corrupted(name, WRITTEN[0], 3, severity)


def test_ocr_confuses_only_what_looks_alike():
    alike = {"o": "u0", "g": "9", "s": "8", "b": "6", "l": "1", "r": "k", "u": "o", "i": "i"}
    for seed in range(50):
        changed = corrupted("ocr", "big souls grill", seed)
        assert len(changed) == len("big souls grill")
        for before, after in zip("big souls grill", changed, strict=True):
            assert after == before or after in alike[before]


@pytest.mark.parametrize("word", ["so", "sol", "soul", "so1ou"])
def test_ocr_misreads_at_least_two_characters_of_a_word(word):
    for seed in range(30):
        changed = corrupted("ocr", word, seed)
        assert sum(map(str.__ne__, word, changed)) == 2, changed


def test_ocr_leaves_words_without_such_letters_clean():
    assert corrupted("ocr", "a man may eat a tent") == "a man may eat a tent"


@pytest.mark.parametrize("name", [name for name in CHARACTER if name != "ocr"])
def test_short_words_and_punctuation_stay_clean(name):
    caption = "a cat sat on the mat, not so far off!"
    assert corrupted(name, caption) == caption


def test_a_word_of_ten_letters_takes_three_edits():
    word = "basketball"
    assert len(corrupted("character_delete", word)) == 7
    assert len(corrupted("character_insert", word)) == 13
    assert edit_distance(word, corrupted("character_replace", word)) in {2, 3}
    assert sorted(corrupted("character_swap", word)) == sorted(word)


def test_swapping_keeps_capital_letters_in_their_place():
    for seed in range(30):
        swapped = corrupted("character_swap", "Dogs", seed)
        assert [letter.isupper() for letter in swapped] == [True, False, False, False]


def test_spacing_is_kept_unless_asked_for_as_published():
    caption = "A T-shirt and the dog's toy ."
    for name, corruption in CHARACTER.items():
        gaps = [character for character in corrupted(name, caption) if character.isspace()]
        assert gaps == [" "] * 6
        assert "T - " in text.as_published(corruption)(caption, 1, default_rng(0))
    assert respaced(caption) == "A T - shirt and the dog ' s toy."
    assert respaced("one ( two ) , three : 5 %") == "one (two ), three: 5%"  # as nlpaug has it
    assert respaced("wait . . . what !?") == "wait. .. what!?"


def test_words_of_other_scripts_are_corrupted_like_any_other():
    caption = "человек катается на волне"
    assert corrupted("character_delete", caption) != caption
    assert corrupted("character_swap", "一个男人在海浪上冲浪") != "一个男人在海浪上冲浪"
    assert corrupted("ocr", caption) == caption
